"""The routing table."""

from hypothesis import given, settings
from hypothesis import strategies as st

from rollup_node.stages.p2p.discv5.enr import Contact, Enr, log_distance, xor_distance
from rollup_node.stages.p2p.discv5.table import (
    BUCKET_SIZE,
    CONCURRENCY,
    MAX_QUERIED,
    PER_NETWORK,
    PER_NETWORK_IN_BUCKET,
    REPLACEMENTS,
    RESULT_SIZE,
    RETRY_SECONDS,
    REVALIDATION_SECONDS,
    Lookup,
    RoutingTable,
    query_distances,
)
from tests.support.p2p.discv5_nodes import CHAIN, contact_of, record_of, result_of, seeded

OWN = record_of("own").node_id
MANY = [record_of(number, f"127.1.{number >> 8}.{number & 255}") for number in range(1, 200)]
FAR = [record for record in MANY if log_distance(record.node_id, OWN) == 256]


def routing_table(records: list[Enr], *, live: bool = False) -> RoutingTable:
    table = RoutingTable(OWN, (4,))
    for record in records:
        table.add_seen_node(record, 0.0)
        if live:
            table.record_response(record.node_id, 0.0, is_check=True)
    return table


def test_a_dead_node_is_replaced_by_a_live_one() -> None:
    table = routing_table(FAR[: BUCKET_SIZE + 3])
    table.record_response(FAR[BUCKET_SIZE + 1].node_id, 0.0, is_check=True)
    dead = FAR[0].node_id
    assert [table.record_failure(dead, 1.0) for _ in range(2)] == [None, None]
    removed = table.record_failure(dead, 1.0)
    assert removed is not None and removed.record == FAR[0]
    assert table.get_member(dead) is None and len(table) == BUCKET_SIZE
    assert table.get_member(FAR[BUCKET_SIZE + 1].node_id) is not None
    assert table.record_failure(dead, 1.0) is None


def test_a_long_lived_node_may_miss_a_few_checks() -> None:
    table = routing_table(FAR[:1])
    for _ in range(20):
        table.record_response(FAR[0].node_id, 0.0, is_check=True)
    assert [table.record_failure(FAR[0].node_id, 1.0) for _ in range(2)] == [None, None]
    assert table.live
    assert any(table.record_failure(FAR[0].node_id, 1.0) for _ in range(3))


def test_revalidations_are_due_by_time() -> None:
    table = routing_table(FAR[:3])
    due = [table.next_to_revalidate(0.0) for _ in range(4)]
    assert [entry.record if entry else None for entry in due] == [*FAR[:3], None]
    table.record_response(FAR[0].node_id, 1.0, is_check=True)
    table.record_response(FAR[1].node_id, 1.0, is_check=False)
    table.record_failure(FAR[2].node_id, 1.0)
    later = table.next_to_revalidate(1.0 + RETRY_SECONDS)
    assert later is not None and later.record == FAR[1]
    for _ in range(2):
        table.next_to_revalidate(1.0 + RETRY_SECONDS)
    checked = table.get_member(FAR[0].node_id)
    assert checked is not None and checked.revalidate_at == 1.0 + REVALIDATION_SECONDS


def test_a_newer_record_replaces_the_older() -> None:
    table = routing_table([FAR[0]], live=True)
    contact = FAR[0].contact()
    assert contact is not None
    number = MANY.index(FAR[0]) + 1
    same = record_of(number, str(contact.endpoint.ip), seq=2, tcp=1)
    moved = record_of(number, "127.9.9.9", seq=3)
    table.add_seen_node(same, 1.0)
    entry = table.get(same.node_id)
    assert entry is not None and entry.record == same and entry.is_live
    table.add_seen_node(FAR[0], 1.0)
    assert entry.record == same
    table.add_seen_node(moved, 1.0)
    entry = table.get(same.node_id)
    assert entry is not None and entry.record == moved and not entry.is_live
    table.add_seen_node(record_of(number, None, seq=4), 1.0)
    assert table.get(same.node_id) is None


def test_our_own_and_unreachable_nodes_are_not_added() -> None:
    table = routing_table([record_of("own"), record_of("hidden", None), record_of("six", "2001:db8::1")])
    assert len(table) == 0


def test_closest_nodes_are_sorted_and_exclude_failed_ones() -> None:
    table = routing_table(MANY[:30])
    table.record_failure(MANY[3].node_id, 1.0)
    target = MANY[3].node_id
    members = [record for record in MANY[:30] if record != MANY[3] and table.get_member(record.node_id)]
    wanted = sorted((record.node_id for record in members), key=lambda node: xor_distance(node, target))[:7]
    assert [contact.node_id for contact in table.closest(target, 7)] == wanted


def test_nodes_per_network_are_bounded_and_slots_are_released() -> None:
    table = RoutingTable(OWN, (4,))
    public = [record_of(("public", number), f"8.8.8.{number}", chain=CHAIN) for number in range(1, 100)]
    for record in public:
        table.add_seen_node(record, 0.0)
    inside = [record for record in public if table.get(record.node_id)]
    assert len(inside) <= PER_NETWORK
    assert all(
        sum(log_distance(record.node_id, OWN) == distance for record in inside) <= PER_NETWORK_IN_BUCKET
        for distance in range(257)
    )
    for record in inside:
        while table.get(record.node_id):
            table.record_failure(record.node_id, 1.0)
    assert len(table) == 0 and not table.networks
    assert table.add_seen_node(public[-1], 0.0) is not None


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["add", "move", "responded", "failed", "due"]), st.integers(0, 60), st.floats(0, 1000)
        ),
        max_size=150,
    )
)
def test_bounds_and_counts_hold_after_any_operations(steps: list[tuple[str, int, float]]) -> None:
    table = RoutingTable(OWN, (4,))
    for action, number, now in steps:
        record = POOL[number]
        if action == "add":
            table.add_seen_node(record, now)
        elif action == "move":
            table.add_seen_node(MOVED[number], now)
        elif action == "responded":
            table.record_response(record.node_id, now, is_check=True)
        elif action == "failed":
            table.record_failure(record.node_id, now)
        else:
            table.next_to_revalidate(now)
        for bucket in table.buckets.values():
            assert len(bucket.entries) <= BUCKET_SIZE and len(bucket.replacements) <= REPLACEMENTS
            assert not bucket.replacements or len(bucket.entries) == BUCKET_SIZE
            assert not bucket.entries.keys() & bucket.replacements.keys()
            held = [*bucket.entries.values(), *bucket.replacements.values()]
            assert sum(bucket.networks.values()) == len(held)
    assert sum(table.networks.values()) == sum(
        len(bucket.entries) + len(bucket.replacements) for bucket in table.buckets.values()
    )


POOL = [record_of(("pool", number), f"9.{number % 7}.{number % 3}.{number + 1}") for number in range(61)]
MOVED = [record_of(("pool", number), f"10{number % 7}.1.1.{number + 1}", seq=2) for number in range(61)]


NODES = [contact_of(record_of(number, f"127.1.{number >> 8}.{number & 255}")) for number in range(150)]
TARGET = seeded("target")(32)


def nearest(contacts: list[Contact], target: bytes = TARGET) -> list[Contact]:
    return sorted(contacts, key=lambda contact: xor_distance(contact.node_id, target))


def run(lookup: Lookup, neighbours: dict[bytes, list[Contact]], dead: frozenset[bytes] = frozenset()) -> int:
    queried = 0
    while not lookup.is_done:
        queries = lookup.next_queries()
        assert 0 < len(queries) <= CONCURRENCY
        for contact, distances in queries:
            queried += 1
            if contact.node_id in dead:
                lookup.add_failure(contact.node_id)
                continue
            known = neighbours[contact.node_id]
            lookup.add_response(
                contact.node_id, [c for c in known if log_distance(c.node_id, contact.node_id) in distances][:16]
            )
    return queried


@settings(max_examples=25)
@given(st.sets(st.integers(0, 149), max_size=60))
def test_dead_nodes_are_skipped(numbers: set[int]) -> None:
    dead = frozenset(NODES[number].node_id for number in numbers)
    neighbours = {contact.node_id: [other for other in NODES if other != contact] for contact in NODES}
    lookup = Lookup(TARGET, OWN)
    lookup.add(NODES[::5])
    run(lookup, neighbours, dead)
    assert not {contact.node_id for contact in result_of(lookup)} & dead
    live = [contact for contact in nearest(NODES) if contact.node_id not in dead]
    assert result_of(lookup)[:1] == live[:1] or len(lookup.queried) == MAX_QUERIED


def test_our_own_node_is_not_queried() -> None:
    lookup = Lookup(TARGET, NODES[0].node_id)
    lookup.add(NODES[:2])
    assert [contact for contact, _ in lookup.next_queries()] == [NODES[1]]


def test_three_nodes_are_queried_at_a_time() -> None:
    lookup = Lookup(TARGET, OWN)
    lookup.add(NODES)
    first = lookup.next_queries()
    assert [contact for contact, _ in first] == nearest(NODES)[:3] and lookup.next_queries() == []
    lookup.add_failure(first[0][0].node_id)
    assert [contact for contact, _ in lookup.next_queries()] == nearest(NODES)[3:4]
    assert not lookup.is_done


def test_ever_closer_nodes_do_not_make_a_lookup_endless() -> None:
    random = seeded("nearer")
    lookup = Lookup(bytes(32), OWN)
    lookup.add(NODES[:3])
    responses = 0
    while not lookup.is_done:
        for contact, _ in lookup.next_queries():
            responses += 1
            size = max(1, 32 - responses // 4)
            closer = [NODES[0]._replace(node_id=bytes(32 - size) + random(size)) for _ in range(16)]
            lookup.add_response(contact.node_id, closer)
    assert len(lookup.queried) == MAX_QUERIED and len(lookup.seen) <= 256
    assert len(result_of(lookup)) <= RESULT_SIZE


def test_query_distances_at_the_bounds() -> None:
    assert query_distances(bytes(32), bytes(32)) == (0, 1, 2)
    assert query_distances(bytes(32), b"\xff" * 32) == (256, 255, 254)
    assert query_distances(bytes(32), bytes(31) + b"\x10") == (5, 6, 4)
