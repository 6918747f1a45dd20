"""Quarantine: blocks wait until a trusted block names them as its parent. The sync planner: filling gaps from
peers that serve, lack, fail and forge blocks."""

import random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollup_node.stages.messages.p2p import GapEnd
from rollup_node.stages.p2p.peering.peer_score import ApplicationScorer
from rollup_node.stages.p2p.reqresp import payload_by_number
from rollup_node.stages.p2p.reqresp.planner import (
    MAX_BLOCKS,
    MAX_BYTES,
    MAX_RANGE,
    MAX_TRUSTED,
    BlockRequest,
    Quarantine,
    QuarantineRelease,
    SyncPlanner,
)
from rollup_node.stages.p2p.storage.peer_record import ReqRespScores
from rollup_node.stages.protocol.payloads import ExecutionPayload
from tests.support.p2p.blocks import block, chain

BLOCKS = chain(30)


def trust_block(quarantine: Quarantine, number: int) -> QuarantineRelease:
    """Trusts the chain's block of that number."""
    payload = BLOCKS[number - 1]
    return quarantine.trust_range_end(number, payload.block_hash, payload.parent_hash)


@pytest.fixture
def quarantine() -> Quarantine:
    return Quarantine()


@settings(max_examples=30)
@given(st.permutations(range(12)), st.integers(0, 12))
def test_all_blocks_are_released_once_in_any_order(order: list[int], trusted_after: int) -> None:
    quarantine = Quarantine()
    released: list[ExecutionPayload] = []
    for step, number in enumerate([*order, None]):
        if step == trusted_after:
            released += trust_block(quarantine, 12).blocks
        if number is not None:
            result = quarantine.add(BLOCKS[number], b"p")
            assert not result.rejected
            released += result.blocks
    assert sorted(item.block_number for item in released) == list(range(1, 13))
    assert len(quarantine) == quarantine.bytes == 0


def test_a_block_that_contradicts_a_released_one_is_rejected(quarantine: Quarantine) -> None:
    quarantine.add(block(4, 4, state_root=bytes(32)), b"forger")
    trust_block(quarantine, 6)
    assert quarantine.add(BLOCKS[4], b"p") == QuarantineRelease((BLOCKS[4],), (b"forger",))
    assert not quarantine.has(4)


def test_an_unexpected_block_is_rejected_at_once(quarantine: Quarantine) -> None:
    other = block(4, 5, state_root=bytes(32))
    quarantine.add(other, b"early")
    assert trust_block(quarantine, 6) == QuarantineRelease((), (b"early",))
    assert quarantine.add(other, b"late") == QuarantineRelease((), (b"late",)) and not quarantine.has(5)
    quarantine.trust_range_end(6, bytes(32), other.block_hash)
    assert quarantine.add(other, b"p").blocks == (other,), "another branch is trusted"


def test_two_blocks_of_a_number_do_not_both_stay(quarantine: Quarantine) -> None:
    quarantine.add(block(4, 4, state_root=bytes(32)), b"a")
    assert quarantine.add(BLOCKS[3], b"b") == QuarantineRelease((), (b"a",))
    assert len(quarantine) == 1


def test_the_sender_of_an_evicted_block_is_reported(quarantine: Quarantine) -> None:
    blocks = chain(MAX_BLOCKS + 2)
    rejected = [
        result.rejected for result in (quarantine.add(block, block.block_number.to_bytes(2, "big")) for block in blocks)
    ]
    assert rejected[-2:] == [(b"\0\1",), (b"\0\2",)] and not any(rejected[:-2])
    assert len(quarantine) == MAX_BLOCKS


def test_the_quarantine_is_bounded_in_bytes(quarantine: Quarantine) -> None:
    shared = bytes(MAX_BYTES // 3)
    for number in range(5):
        quarantine.add(msgspec.structs.replace(BLOCKS[number], transactions=(shared,)), b"p")
        assert quarantine.bytes <= MAX_BYTES
    assert len(quarantine) == 2


@pytest.mark.parametrize(("later_ends", "is_released"), [(MAX_TRUSTED - 2, True), (MAX_TRUSTED - 1, False)])
def test_trusted_hashes_are_bounded(quarantine: Quarantine, later_ends: int, is_released: bool) -> None:
    quarantine.trust_range_end(1, BLOCKS[0].block_hash, bytes(32))
    for number in range(1, later_ends + 1):
        quarantine.trust_range_end(7, number.to_bytes(32, "big"), bytes(32))
    assert quarantine.add(BLOCKS[0], b"p").blocks == ((BLOCKS[0],) if is_released else ())


CHAIN = chain(300)
NOT_FOUND = payload_by_number.RequestOutcome(payload_by_number.ResultCode.NOT_FOUND)


def found(payload: ExecutionPayload) -> payload_by_number.RequestOutcome:
    return payload_by_number.RequestOutcome(payload_by_number.ResultCode.OK, payload)


def gap_end(number: int) -> GapEnd:
    payload = CHAIN[number - 1]
    return GapEnd(number, payload.block_hash, payload.parent_hash)


class PlannerHarness:
    """A planner and its peers; `behaviour` is how each responds."""

    def __init__(self, count: int, only_static: bool = False) -> None:
        self.scores = ApplicationScorer(1200.0)
        self.planner = SyncPlanner(self.scores, only_static)
        self.now = 100.0
        self.peers = [bytes([number]) for number in range(count)]
        self.behaviour: dict[bytes, str] = {}
        self.requests: list[BlockRequest] = []
        self.received: list[ExecutionPayload] = []
        for peer in self.peers:
            self.planner.add_peer(peer, is_static=False)

    def request_range(self, head: int, top: int) -> None:
        self.received += self.planner.request_range(head, gap_end(top), self.now)

    def respond(self, request: BlockRequest) -> payload_by_number.RequestOutcome:
        payload = CHAIN[request.number - 1]
        behaviour = self.behaviour.get(request.peer, "serves")
        if behaviour == "forks":
            return found(msgspec.structs.replace(payload, state_root=bytes(32), block_hash=bytes(31) + request.peer))
        if behaviour == "forges":
            return found(msgspec.structs.replace(payload, state_root=bytes(32)))
        outcomes: dict[str, payload_by_number.RequestOutcome] = {
            "serves": found(payload),
            "not found": NOT_FOUND,
            "fails": payload_by_number.request_failed("slow"),
        }
        return outcomes[behaviour]

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        while self.now <= end:
            requests = self.planner.next_requests(self.now)
            self.requests += requests
            for request in requests:
                self.received += self.planner.handle_outcome(request, self.respond(request), self.now)
            if not requests:
                pause = self.planner.delay(self.now)
                if pause is None:
                    break
                self.now += max(pause, 0.001)
            else:
                self.now += 0.01

    def numbers(self) -> list[int]:
        return [payload.block_number for payload in self.received]


def test_a_gap_is_filled_from_the_top_down() -> None:
    harness = PlannerHarness(3)
    harness.request_range(10, 30)
    harness.run(10.0)
    assert harness.numbers() == list(range(29, 10, -1)) and len(harness.planner.wanted) == 0
    assert len(harness.requests) == 19, "no block is requested twice"
    assert all(harness.scores.counts(peer).valid_responses > 0 for peer in harness.peers)
    assert harness.planner.next_requests(harness.now) == [] and harness.planner.delay(harness.now) is None


def test_a_long_gap_is_filled_part_by_part() -> None:
    harness = PlannerHarness(15)
    top = 300
    while top > 2:
        harness.request_range(1, top)
        assert len(harness.planner.wanted) <= MAX_RANGE
        harness.run(60.0)
        top = harness.numbers()[-1]
    assert harness.numbers() == list(range(299, 1, -1))
    assert all(harness.scores.counts(peer).rejected_payloads == 0 for peer in harness.peers)


def test_the_servers_rate_limits_are_kept() -> None:
    harness = PlannerHarness(1)
    harness.request_range(100, 200)
    harness.run(0.5)
    assert len(harness.requests) == 15 + 2
    harness.run(4.6)
    assert 15 + 4 * 5 - 2 <= len(harness.requests) <= 15 + 4 * 5 + 2
    crowd = PlannerHarness(30)
    crowd.request_range(100, 200)
    crowd.run(0.02)
    assert len(crowd.requests) <= 41


def test_a_failed_number_is_requested_from_another_peer() -> None:
    harness = PlannerHarness(3)
    harness.behaviour[harness.peers[0]] = "fails"
    harness.request_range(10, 20)
    harness.run(20.0)
    assert harness.numbers() == list(range(19, 10, -1))
    counts = harness.scores.counts(harness.peers[0])
    assert counts.error_responses >= 1 and counts.valid_responses == 0
    assert sum(request.peer == harness.peers[0] for request in harness.requests) <= 4, "an error costs fifteen tokens"


def test_not_found_sets_a_peer_aside_without_penalty() -> None:
    harness = PlannerHarness(2)
    harness.behaviour[harness.peers[0]] = "not found"
    harness.request_range(10, 20)
    harness.run(20.0)
    assert harness.numbers() == list(range(19, 10, -1))
    assert harness.scores.counts(harness.peers[0]) == ReqRespScores()
    assert sum(request.peer == harness.peers[0] for request in harness.requests) == 1


def test_a_block_that_all_peers_lack_rests_until_the_range_is_repeated() -> None:
    harness = PlannerHarness(3)
    for peer in harness.peers:
        harness.behaviour[peer] = "not found"
    harness.request_range(10, 20)
    harness.run(30.0)
    assert len(harness.requests) == 3 and harness.planner.delay(harness.now) is None
    harness.behaviour.clear()
    harness.request_range(10, 20)
    harness.run(30.0)
    assert harness.numbers() == list(range(19, 10, -1))


@pytest.mark.parametrize("behaviour", ["forks", "forges"])
def test_invalid_blocks_do_not_stop_the_sync(behaviour: str) -> None:
    harness = PlannerHarness(4)
    for peer in harness.peers[:2]:
        harness.behaviour[peer] = behaviour
    harness.request_range(10, 30)
    for _ in range(10):
        harness.run(10.0)
        harness.request_range(10, min(harness.numbers(), default=30))
    assert harness.numbers() == list(range(29, 10, -1))
    assert all(CHAIN[payload.block_number - 1] == payload for payload in harness.received)
    assert all(harness.scores.score(peer) <= -10.0 for peer in harness.peers[:2])
    assert all(harness.scores.counts(peer).rejected_payloads == 0 for peer in harness.peers[2:])


@pytest.mark.option("p2p.sync.onlyreqtostatic", by="only_static")
def test_only_static_peers_are_used_with_the_option() -> None:
    harness = PlannerHarness(3, only_static=True)
    harness.planner.add_peer(b"static", is_static=True)
    harness.request_range(10, 20)
    harness.run(10.0)
    assert {request.peer for request in harness.requests} == {b"static"} and len(harness.received) == 9


def test_a_new_range_replaces_the_old_one() -> None:
    harness = PlannerHarness(2)
    harness.request_range(10, 100)
    first = harness.planner.next_requests(harness.now)
    harness.request_range(10, 20)
    assert len(harness.planner.wanted) == 9
    for request in first:
        assert harness.planner.handle_outcome(request, harness.respond(request), harness.now) in (
            (),
            (CHAIN[98],),
            (CHAIN[97],),
        )
    harness.run(10.0)
    assert set(harness.numbers()) >= set(range(11, 20))


@pytest.mark.fault("F49")
def test_random_peers_never_give_a_wrong_block() -> None:
    for seed in range(8):
        chance, harness = random.Random(seed), PlannerHarness(6)
        for peer in harness.peers[1:]:
            harness.behaviour[peer] = chance.choice(["serves", "not found", "fails", "forks", "forges"])
        for _ in range(40):
            harness.request_range(50, min(harness.numbers(), default=70))
            harness.run(4.0)
        assert all(CHAIN[payload.block_number - 1] == payload for payload in harness.received)
        assert harness.numbers() == list(range(69, 50, -1))
        assert harness.scores.counts(harness.peers[0]).rejected_payloads == 0
