"""Lookups in simulated networks."""

from hypothesis import given, settings
from hypothesis import strategies as st

from rollup_node.stages.p2p.discv5.enr import Contact, log_distance, xor_distance
from rollup_node.stages.p2p.discv5.lookup import CONCURRENCY, MAX_QUERIED, RESULT_SIZE, Lookup, query_distances
from tests.support.p2p.discv5_nodes import contact_of, record_of, seeded

OWN = record_of("own").node_id
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


def test_the_closest_nodes_are_discovered() -> None:
    neighbours = {contact.node_id: [other for other in NODES if other != contact] for contact in NODES}
    lookup = Lookup(TARGET, OWN)
    lookup.add(nearest(NODES)[-3:])
    queried = run(lookup, neighbours)
    assert lookup.result[:8] == nearest(NODES)[:8]
    assert queried <= MAX_QUERIED


@settings(max_examples=25)
@given(st.sets(st.integers(0, 149), max_size=60))
def test_dead_nodes_are_skipped(numbers: set[int]) -> None:
    dead = frozenset(NODES[number].node_id for number in numbers)
    neighbours = {contact.node_id: [other for other in NODES if other != contact] for contact in NODES}
    lookup = Lookup(TARGET, OWN)
    lookup.add(NODES[::5])
    run(lookup, neighbours, dead)
    assert not {contact.node_id for contact in lookup.result} & dead
    live = [contact for contact in nearest(NODES) if contact.node_id not in dead]
    assert lookup.result[:1] == live[:1] or len(lookup.queried) == MAX_QUERIED


def test_a_lookup_without_nodes_is_done() -> None:
    lookup = Lookup(TARGET, OWN)
    assert lookup.is_done and lookup.next_queries() == [] and lookup.result == []


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
    assert len(lookup.result) <= RESULT_SIZE


@given(st.binary(min_size=32, max_size=32), st.binary(min_size=32, max_size=32))
def test_query_distances(node: bytes, target: bytes) -> None:
    result = query_distances(node, target)
    assert result[0] == log_distance(node, target)
    assert len(set(result)) == 3 and all(0 <= distance <= 256 for distance in result)


def test_query_distances_at_the_bounds() -> None:
    assert query_distances(bytes(32), bytes(32)) == (0, 1, 2)
    assert query_distances(bytes(32), b"\xff" * 32) == (256, 255, 254)
    assert query_distances(bytes(32), bytes(31) + b"\x10") == (5, 6, 4)
