"""What moves a light client, every lie that does not, and what it asks for until the tip [LCP6 to LCP12]."""

import json
from collections.abc import Callable
from hashlib import sha256

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.l1.light_client.beacon_json import UPDATES_PER_REQUEST, LightClientDataError
from rollup_node.stages.l1.light_client.containers import (
    LightClientHeader,
    LightClientUpdate,
    SyncAggregate,
    SyncCommittee,
)
from rollup_node.stages.l1.light_client.store import (
    WEAK_SUBJECTIVITY_SECONDS,
    Kind,
    LightClient,
    LightClientStore,
    Refusal,
    Request,
    check_bootstrap,
    fast_aggregate_verify,
    public_keys,
)
from rollup_node.tools.devnet.l1.signed_headers import CommitteeKeys
from tests.support.chains.fake_beacon_chain import SIZE, FakeBeaconChain, beacon_network, keys_of

PERIOD = 32
LATER = 10_000


def block_hash(number: int) -> bytes:
    return sha256(number.to_bytes(8, "big")).digest()


def chain_of(seed: bytes = b"honest") -> FakeBeaconChain:
    return FakeBeaconChain(beacon_network(), block_hash, seed)


def store_at(chain: FakeBeaconChain, slot: int) -> LightClientStore:
    bootstrap = chain.bootstrap(slot)
    assert check_bootstrap(bootstrap, chain.root(slot), chain.network) is None
    return LightClientStore(chain.network, bootstrap)


def changed(update: LightClientUpdate, **values: object) -> LightClientUpdate:
    return msgspec.structs.replace(update, **values)


def other_execution(header: LightClientHeader) -> LightClientHeader:
    return msgspec.structs.replace(header, execution_block_hash=b"\x66" * 32)


def signed_by(update: LightClientUpdate, count: int) -> LightClientUpdate:
    return changed(update, sync_aggregate=SyncAggregate((True,) * count + (False,) * (SIZE - count), bytes(96)))


FOREIGN = keys_of(b"foreign", 2).committee
LIES: dict[str, tuple[Callable[[LightClientUpdate], LightClientUpdate], Refusal]] = {
    "nobody": (lambda update: signed_by(update, 0), Refusal.NO_PARTICIPANTS),
    "another execution block": (
        lambda update: changed(update, attested_header=other_execution(update.attested_header)),
        Refusal.HEADER,
    ),
    "another finalized execution block": (
        lambda update: changed(
            update, finalized_header=update.finalized_header and other_execution(update.finalized_header)
        ),
        Refusal.HEADER,
    ),
    "signed in its own slot": (lambda update: changed(update, signature_slot=62), Refusal.SLOTS),
    "signed in the future": (lambda update: changed(update, signature_slot=LATER + 1), Refusal.FUTURE),
    "signed two periods later": (lambda update: changed(update, signature_slot=3 * PERIOD), Refusal.PERIOD),
    "no finality branch": (lambda update: changed(update, finality_branch=()), Refusal.FINALITY),
    "a broken finality branch": (
        lambda update: changed(update, finality_branch=(b"\1" * 32, *update.finality_branch[1:])),
        Refusal.FINALITY,
    ),
    "a longer finality branch": (
        lambda update: changed(update, finality_branch=(b"\1" * 32, *update.finality_branch)),
        Refusal.FINALITY,
    ),
    "a shorter finality branch": (
        lambda update: changed(update, finality_branch=update.finality_branch[1:]),
        Refusal.FINALITY,
    ),
    "another committee": (lambda update: changed(update, next_sync_committee=FOREIGN), Refusal.COMMITTEE),
    "a committee without its branch": (
        lambda update: changed(update, next_sync_committee_branch=()),
        Refusal.COMMITTEE,
    ),
    "no signature": (lambda update: signed_by(update, SIZE), Refusal.SIGNATURE),
    "a signer too few": (
        lambda update: changed(
            update,
            sync_aggregate=SyncAggregate((False,) + (True,) * (SIZE - 1), update.sync_aggregate.signature),
        ),
        Refusal.SIGNATURE,
    ),
    "signed for the slot of another fork": (lambda update: changed(update, signature_slot=41), Refusal.SLOTS),
}


@pytest.mark.parametrize("name", LIES)
def test_a_lie_is_named_and_moves_nothing(name: str) -> None:
    chain = chain_of()
    store = store_at(chain, 8)
    assert store.process(chain.update(30), LATER) is None
    before = (store.finalized, store.optimistic, store.next_sync_committee)
    lie, refusal = LIES[name]
    assert store.process(lie(chain.update(62)), LATER) is refusal
    assert (store.finalized, store.optimistic, store.next_sync_committee) == before
    assert store.process(chain.update(62), LATER) is None


def test_another_next_committee_than_the_known_one_is_refused() -> None:
    """Though the state of a signed header had it: a committee that signs two states lies."""
    chain = chain_of()
    store = store_at(chain, 8)
    assert store.process(chain.update(30), LATER) is None
    store.next_sync_committee = FOREIGN
    assert store.process(chain.update(31, signed_at=LATER), LATER) is Refusal.PERIOD
    assert store.process(chain.update(31, signed_at=31 + 32), LATER) is Refusal.OTHER_COMMITTEE


@pytest.mark.parametrize(
    ("participants", "head", "finality"),
    [(5, False, False), (8, False, False), (9, True, False), (10, True, False), (11, True, True)],
)
def test_participation_decides_what_moves(participants: int, head: bool, finality: bool) -> None:
    """[LCP8] Half of the committee moves no head, and less than two thirds finalize nothing: at the start, too."""
    chain = chain_of()
    store = store_at(chain, 8)
    chain.participants = participants
    assert store.process(chain.update(30), LATER) is None
    assert (store.optimistic.beacon.slot > 8) is head
    assert (store.next_sync_committee is not None) is finality


def test_what_has_nothing_new_costs_no_signature(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = chain_of()
    store = store_at(chain, 8)
    assert store.process(chain.update(30), LATER) is None
    monkeypatch.setattr(store, "_verify", None)
    assert store.process(chain.update(30), LATER) is Refusal.NOT_RELEVANT
    assert store.process(chain.update(12), LATER) is Refusal.NOT_RELEVANT


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        (lambda bootstrap: msgspec.structs.replace(bootstrap, current_sync_committee=FOREIGN), Refusal.COMMITTEE),
        (
            lambda bootstrap: msgspec.structs.replace(bootstrap, header=other_execution(bootstrap.header)),
            Refusal.HEADER,
        ),
    ],
)
def test_nothing_of_a_bootstrap_is_trusted_but_its_root(change: Callable[..., object], refusal: Refusal) -> None:
    """[LCP6]"""
    chain = chain_of()
    assert check_bootstrap(change(chain.bootstrap(8)), chain.root(8), chain.network) is refusal  # type: ignore[arg-type]
    assert check_bootstrap(chain.bootstrap(8), chain.root(16), chain.network) is Refusal.OTHER_ROOT


def test_a_committee_with_a_malformed_key_signs_nothing() -> None:
    chain = chain_of()
    store = store_at(chain, 8)
    for key in (b"\xff" * 48, b"\xc0" + bytes(47)):
        keys = store.current_sync_committee.pubkeys
        store.current_sync_committee = SyncCommittee((key, *keys[1:]), keys[0])
        assert store.process(chain.update(30), LATER) is Refusal.SIGNATURE


NODES = st.binary(min_size=32, max_size=32)
UPDATES = [chain_of().update(slot) for slot in (30, 31, 62, 63, 64)]
PARTS = ("state_root", "body_root", "parent_root", "slot", "proposer_index")


@given(st.data())
def test_no_change_of_a_signed_update_moves_anything(data: st.DataObject) -> None:
    """A header with any other member, any other bit, signature or branch node proves nothing."""
    update = data.draw(st.sampled_from(UPDATES))
    store = store_at(chain_of(), 8)
    if data.draw(st.booleans()):
        store.process(UPDATES[0], LATER)
    before = (store.finalized, store.optimistic, store.next_sync_committee)
    kind = data.draw(st.sampled_from(("header", "bits", "signature", "finality", "committee")))
    if kind == "header":
        name = data.draw(st.sampled_from(PARTS))
        old = getattr(update.attested_header.beacon, name)
        value = (
            old + data.draw(st.integers(1, 40))
            if isinstance(old, int)
            else data.draw(st.binary(min_size=32, max_size=32))
        )
        beacon = msgspec.structs.replace(update.attested_header.beacon, **{name: value})
        lie = changed(update, attested_header=msgspec.structs.replace(update.attested_header, beacon=beacon))
    elif kind in ("bits", "signature"):
        aggregate = update.sync_aggregate
        index = data.draw(st.integers(0, SIZE - 1))
        bits = tuple(bit if at != index else not bit for at, bit in enumerate(aggregate.bits))
        signature = data.draw(st.binary(min_size=96, max_size=96))
        new = SyncAggregate(bits, aggregate.signature) if kind == "bits" else SyncAggregate(aggregate.bits, signature)
        lie = changed(update, sync_aggregate=new)
    else:
        name = "finality_branch" if kind == "finality" else "next_sync_committee_branch"
        branch = list(getattr(update, name))
        index = data.draw(st.integers(0, len(branch) - 1))
        branch[index] = data.draw(NODES.filter(lambda node: node != branch[index]))
        lie = changed(update, **{name: tuple(branch)})
    assert store.process(lie, LATER) is not None
    assert (store.finalized, store.optimistic, store.next_sync_committee) == before


KEYS = CommitteeKeys(b"seed", 4)
ROOT = b"\x07" * 32


@pytest.mark.parametrize("signature", [bytes(96), b"\xc0" + bytes(95), b"\xff" * 96, b"", b"\1" * 95])
def test_what_is_no_signature_verifies_nothing(signature: bytes) -> None:
    """Among them the point at infinity, which is the sum of no signatures."""
    assert not fast_aggregate_verify(public_keys(KEYS.committee.pubkeys), ROOT, signature)
    assert not fast_aggregate_verify([], ROOT, b"\xc0" + bytes(95))


def answer(chain: FakeBeaconChain, request: Request, head: int) -> bytes:
    """What an honest Beacon API returns with the head at a slot."""
    if request.kind is Kind.BOOTSTRAP:
        root = request.path.rpartition("/")[2]
        slot = next(slot for slot in range(1, head + 1) if "0x" + chain.root(slot).hex() == root)
        return json.dumps(chain.bootstrap_json(slot)).encode()
    if request.kind is Kind.UPDATES:
        start, count = (int(value) for _, value in request.query)
        periods = range(start, min(start + count, chain.network.period_of(head) + 1))
        return json.dumps([chain.update_json(min((item + 1) * PERIOD - 2, head)) for item in periods]).encode()
    return json.dumps(chain.update_json(head, finality=request.kind is Kind.FINALITY, committee=False)).encode()


def now_at(slot: int) -> float:
    return 12.0 * slot + 5


def follow(client: LightClient, chain: FakeBeaconChain, head: int) -> list[Kind]:
    """Answer one round of requests; what they were for."""
    requests = client.requests(now_at(head + 1))
    for request in requests:
        assert client.take(request, answer(chain, request, head), now_at(head + 1)) in (None, Refusal.NOT_RELEVANT)
    return [request.kind for request in requests]


def test_from_a_checkpoint_to_the_tip_over_many_periods() -> None:
    chain, head = chain_of(), 40 * PERIOD + 20
    client = LightClient(chain.network, chain.root(8))
    assert not client.is_synced(now_at(head))
    kinds = [follow(client, chain, head) for _ in range(7)]
    assert kinds[0] == [Kind.BOOTSTRAP] and set(map(tuple, kinds[1:6])) == {(Kind.UPDATES,)}
    assert kinds[6][:2] == [Kind.OPTIMISTIC, Kind.FINALITY]
    assert client.store is not None and client.store.period == 40
    assert client.store.optimistic.beacon == chain.header(head).beacon
    assert client.store.finalized.beacon == chain.header(chain.finalized(head)).beacon


def test_at_the_tip_finality_is_asked_for_less_often_than_the_head_and_the_committee_until_it_is_known() -> None:
    chain = chain_of()
    client = LightClient(chain.network, chain.root(8))
    asked: list[Kind] = []
    for head in range(20, 3 * PERIOD):
        kinds = follow(client, chain, head)
        asked += kinds
        assert client.is_synced(now_at(head + 1))
        if head > 20:
            assert kinds[0] is Kind.OPTIMISTIC
            assert client.store is not None and client.store.optimistic.beacon.slot == head
    assert asked.count(Kind.FINALITY) < asked.count(Kind.OPTIMISTIC)
    assert asked.count(Kind.UPDATES) <= 10


def test_a_clock_that_was_ahead_delays_neither_finality_nor_the_committee() -> None:
    """It was most of a period ahead as both were asked for, and is right again."""
    chain, head = chain_of(), 26
    client = LightClient(chain.network, chain.root(8))
    follow(client, chain, 8)
    for request in client.requests(now_at(PERIOD - 1)):
        if request.kind is not Kind.UPDATES:
            client.take(request, answer(chain, request, head), now_at(PERIOD - 1))
    assert client.store is not None and client.store.finalized.beacon.slot == chain.finalized(head)
    assert {request.kind for request in client.requests(now_at(10))} == {Kind.OPTIMISTIC, Kind.FINALITY, Kind.UPDATES}


def test_of_updates_those_before_a_lie_are_taken() -> None:
    honest, foreign, head = chain_of(), chain_of(seed=b"foreign"), 6 * PERIOD
    client = LightClient(honest.network, honest.root(8))
    follow(client, honest, head)
    (request,) = client.requests(now_at(head))
    bodies = [honest.update_json(30), honest.update_json(62), foreign.update_json(94)]
    assert client.take(request, json.dumps(bodies).encode(), now_at(head)) is Refusal.SIGNATURE
    assert client.store is not None and client.store.period == 1
    assert client.store.next_sync_committee == keys_of(b"honest", 2).committee


def test_more_updates_than_were_asked_for_are_malformed() -> None:
    chain = chain_of()
    client = LightClient(chain.network, chain.root(8))
    follow(client, chain, 8)
    body = json.dumps([chain.update_json(30)] * (UPDATES_PER_REQUEST + 1)).encode()
    with pytest.raises(LightClientDataError, match="9 updates, more than 8"):
        client.take(client.updates(now_at(30)), body, now_at(30))


def test_a_wrong_bootstrap_starts_nothing() -> None:
    chain = chain_of()
    client = LightClient(chain.network, chain.root(8))
    (request,) = client.requests(now_at(20))
    assert client.take(request, json.dumps(chain.bootstrap_json(16)).encode(), now_at(20)) is Refusal.OTHER_ROOT
    assert client.store is None and client.requests(now_at(20)) == [request]


def test_a_checkpoint_is_too_old_after_the_weak_subjectivity_period() -> None:
    chain = chain_of()
    client = LightClient(chain.network, chain.root(8))
    follow(client, chain, 8)
    assert not client.is_too_old(12 * 8 + WEAK_SUBJECTIVITY_SECONDS)
    assert client.is_too_old(12 * 8 + WEAK_SUBJECTIVITY_SECONDS + 1)
