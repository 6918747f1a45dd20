"""What a light client asks for, from bootstrap to the tip, and what it makes of the answers [LCP10 to LCP12]."""

import json
from hashlib import sha256

import pytest

from rollup_node.stages.l1.light_client.beacon_json import UPDATES_PER_REQUEST, LightClientDataError
from rollup_node.stages.l1.light_client.store import Refusal
from rollup_node.stages.l1.light_client.sync import WEAK_SUBJECTIVITY_SECONDS, Kind, LightClient, Request
from tests.support.chains.fake_beacon_chain import FakeBeaconChain, beacon_network, keys_of

PERIOD = 32


def chain_of(seed: bytes = b"honest") -> FakeBeaconChain:
    return FakeBeaconChain(beacon_network(), lambda number: sha256(number.to_bytes(8, "big")).digest(), seed)


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
    for head in range(20, 5 * PERIOD):
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


def test_a_request_asks_for_so_many_periods_at_most() -> None:
    chain = chain_of()
    client = LightClient(chain.network, chain.root(8))
    follow(client, chain, 8)
    assert client.updates(now_at(3 * PERIOD)).query == (("start_period", "0"), ("count", "4"))
    assert client.updates(now_at(900 * PERIOD)).query == (("start_period", "0"), ("count", str(UPDATES_PER_REQUEST)))


def test_of_updates_those_before_a_lie_are_taken() -> None:
    honest, foreign, head = chain_of(), chain_of(b"foreign"), 6 * PERIOD
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
