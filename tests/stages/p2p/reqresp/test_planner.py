"""Filling gaps from peers that give, lack, fail and lie."""

import random

import msgspec
import pytest

from rollup_node.stages.messages.p2p import GapEnd
from rollup_node.stages.p2p.reqresp.payload_by_number import (
    BlockFound,
    ErrorResponse,
    RequestFailed,
    RequestOutcome,
    ResultCode,
)
from rollup_node.stages.p2p.reqresp.planner import MAX_RANGE, BlockRequest, SyncPlanner
from rollup_node.stages.p2p.scoring.application_score import ApplicationScorer, ResponseCounts, application_score_params
from rollup_node.stages.protocol.payloads import ExecutionPayload
from tests.support.p2p_blocks import chain

CHAIN = chain(300)
LACKS = ErrorResponse(ResultCode.NOT_FOUND)


def target(number: int) -> GapEnd:
    payload = CHAIN[number - 1]
    return GapEnd(number, payload.block_hash, payload.parent_hash)


class Peers:
    """A planner with peers that answer as they are told."""

    def __init__(self, count: int, only_static: bool = False) -> None:
        self.scores = ApplicationScorer(application_score_params(2))
        self.planner = SyncPlanner(self.scores, only_static)
        self.now = 100.0
        self.names = [bytes([number]) for number in range(count)]
        self.behaviour: dict[bytes, str] = {}
        self.asked: list[BlockRequest] = []
        self.got: list[ExecutionPayload] = []
        for name in self.names:
            self.planner.add_peer(name, is_static=False)

    def want(self, head: int, top: int) -> None:
        self.got += self.planner.request_range(head, target(top), self.now)

    def answer(self, request: BlockRequest) -> RequestOutcome:
        payload = CHAIN[request.number - 1]
        how = self.behaviour.get(request.peer, "gives")
        if how == "lies":
            return BlockFound(
                msgspec.structs.replace(payload, state_root=bytes(32), block_hash=bytes(31) + request.peer)
            )
        if how == "forges":
            return BlockFound(msgspec.structs.replace(payload, state_root=bytes(32)))
        return {"gives": BlockFound(payload), "lacks": LACKS, "fails": RequestFailed("slow")}[how]

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        while self.now <= end:
            requests = self.planner.next_requests(self.now)
            self.asked += requests
            for request in requests:
                self.got += self.planner.handle_outcome(request, self.answer(request), self.now)
            if not requests:
                pause = self.planner.delay(self.now)
                if pause is None:
                    break
                self.now += max(pause, 0.001)
            else:
                self.now += 0.01

    def numbers(self) -> list[int]:
        return [payload.block_number for payload in self.got]


def test_a_gap_is_filled_from_the_top_down() -> None:
    peers = Peers(3)
    peers.want(10, 30)
    peers.run(10.0)
    assert peers.numbers() == list(range(29, 10, -1)) and peers.planner.wanted == 0
    assert len(peers.asked) == 19, "nothing is asked for twice"
    assert all(peers.scores.counts(name).valid_responses > 0 for name in peers.names)
    assert peers.planner.next_requests(peers.now) == [] and peers.planner.delay(peers.now) is None


def test_an_empty_range_requests_nothing() -> None:
    peers = Peers(2)
    assert peers.planner.next_requests(0.0) == []
    peers.want(29, 30)
    assert peers.planner.wanted == 0 and peers.planner.next_requests(0.0) == []


def test_responses_in_any_order() -> None:
    peers = Peers(15)
    peers.want(10, 26)
    requests = peers.planner.next_requests(peers.now)
    assert [request.number for request in requests] == list(range(25, 10, -1))
    assert len({request.peer for request in requests}) == 15
    random.Random(1).shuffle(requests)
    for request in requests:
        peers.got += peers.planner.handle_outcome(request, peers.answer(request), peers.now)
    assert peers.numbers() == list(range(25, 10, -1))


def test_a_long_gap_is_filled_part_by_part() -> None:
    peers = Peers(15)
    top = 300
    while top > 2:
        peers.want(1, top)
        assert peers.planner.wanted <= MAX_RANGE
        peers.run(60.0)
        top = peers.numbers()[-1]
    assert peers.numbers() == list(range(299, 1, -1))
    assert all(peers.scores.counts(name).rejected_payloads == 0 for name in peers.names)


def test_the_servers_rate_limits_are_kept() -> None:
    peers = Peers(1)
    peers.want(100, 200)
    peers.run(0.5)
    assert len(peers.asked) == 15 + 2
    peers.run(4.6)
    assert 15 + 4 * 5 - 2 <= len(peers.asked) <= 15 + 4 * 5 + 2
    many = Peers(30)
    many.want(100, 200)
    many.run(0.02)
    assert len(many.asked) <= 41


def test_one_request_at_a_time_to_a_peer() -> None:
    peers = Peers(2)
    peers.want(10, 30)
    first = peers.planner.next_requests(peers.now)
    assert [request.number for request in first] == [29, 28]
    assert peers.planner.next_requests(peers.now) == [] and peers.planner.delay(peers.now) is None
    peers.planner.handle_outcome(first[0], peers.answer(first[0]), peers.now)
    assert peers.planner.next_requests(peers.now) == [BlockRequest(first[0].peer, 27)]


def test_a_failed_number_is_requested_from_another_peer() -> None:
    peers = Peers(3)
    peers.behaviour[peers.names[0]] = "fails"
    peers.want(10, 20)
    peers.run(20.0)
    assert peers.numbers() == list(range(19, 10, -1))
    counts = peers.scores.counts(peers.names[0])
    assert counts.error_responses >= 1 and counts.valid_responses == 0
    assert sum(request.peer == peers.names[0] for request in peers.asked) <= 4, "an error costs fifteen tokens"


def test_not_found_sets_a_peer_aside_without_penalty() -> None:
    peers = Peers(2)
    peers.behaviour[peers.names[0]] = "lacks"
    peers.want(10, 20)
    peers.run(20.0)
    assert peers.numbers() == list(range(19, 10, -1))
    assert peers.scores.counts(peers.names[0]) == ResponseCounts()
    assert sum(request.peer == peers.names[0] for request in peers.asked) == 1


def test_a_block_that_all_peers_lack_rests_until_the_range_is_repeated() -> None:
    peers = Peers(3)
    for name in peers.names:
        peers.behaviour[name] = "lacks"
    peers.want(10, 20)
    peers.run(30.0)
    assert len(peers.asked) == 3 and peers.planner.delay(peers.now) is None
    peers.behaviour.clear()
    peers.want(10, 20)
    peers.run(30.0)
    assert peers.numbers() == list(range(19, 10, -1))


@pytest.mark.parametrize("how", ["lies", "forges"])
def test_invalid_blocks_do_not_stop_the_sync(how: str) -> None:
    peers = Peers(4)
    for liar in peers.names[:2]:
        peers.behaviour[liar] = how
    peers.want(10, 30)
    for _ in range(10):
        peers.run(10.0)
        peers.want(10, min(peers.numbers(), default=30))
    assert peers.numbers() == list(range(29, 10, -1))
    assert all(CHAIN[payload.block_number - 1] == payload for payload in peers.got)
    assert all(peers.scores.score(liar) <= -10.0 for liar in peers.names[:2])
    assert all(peers.scores.counts(good).rejected_payloads == 0 for good in peers.names[2:])


def test_only_static_peers_are_used_with_the_option() -> None:
    peers = Peers(3, only_static=True)
    peers.planner.add_peer(b"static", is_static=True)
    peers.want(10, 20)
    peers.run(10.0)
    assert {request.peer for request in peers.asked} == {b"static"} and len(peers.got) == 9


def test_requests_of_removed_peers_are_repeated() -> None:
    peers = Peers(1)
    peers.want(10, 20)
    (request,) = peers.planner.next_requests(peers.now)
    peers.planner.remove_peer(request.peer)
    assert peers.planner.next_requests(peers.now) == []
    assert peers.planner.handle_outcome(request, peers.answer(request), peers.now) == ()
    peers.planner.add_peer(b"new", is_static=False)
    assert peers.planner.next_requests(peers.now) == [BlockRequest(b"new", 19)]


def test_a_new_range_replaces_the_old_one() -> None:
    peers = Peers(2)
    peers.want(10, 100)
    first = peers.planner.next_requests(peers.now)
    peers.want(10, 20)
    assert peers.planner.wanted == 9
    for request in first:
        assert peers.planner.handle_outcome(request, peers.answer(request), peers.now) in (
            (),
            (CHAIN[98],),
            (CHAIN[97],),
        )
    peers.run(10.0)
    assert set(peers.numbers()) >= set(range(11, 20))


def test_quarantined_blocks_are_released_once_trusted() -> None:
    peers = Peers(5)
    peers.want(10, 30)
    requests = peers.planner.next_requests(peers.now)
    for request in requests[1:]:
        assert peers.planner.handle_outcome(request, peers.answer(request), peers.now) == ()
    known = peers.planner.request_range(10, target(29), peers.now)
    assert [payload.block_number for payload in known] == [28, 27, 26, 25]


def test_random_peers_never_give_a_wrong_block() -> None:
    for seed in range(8):
        chance, peers = random.Random(seed), Peers(6)
        for name in peers.names[1:]:
            peers.behaviour[name] = chance.choice(["gives", "lacks", "fails", "lies", "forges"])
        for _ in range(40):
            peers.want(50, min(peers.numbers(), default=70))
            peers.run(4.0)
        assert all(CHAIN[payload.block_number - 1] == payload for payload in peers.got)
        assert peers.numbers() == list(range(69, 50, -1))
        assert peers.scores.counts(peers.names[0]).rejected_payloads == 0
