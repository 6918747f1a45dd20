"""Requests are repeated, and prefetched blobs are bounded."""

from typing import cast

import pytest

from rollup_node.ipc.bus.bus import Client
from rollup_node.stages.derivation.pipeline import outputs
from rollup_node.stages.derivation.pipeline.deriver import Output
from rollup_node.stages.derivation.pipeline.outputs import NeedBlobs
from rollup_node.stages.derivation.process.requests import (
    BLOB_BYTES,
    MAX_PREFETCHED,
    PREFETCH_SECONDS,
    REPEAT_SECONDS,
    VERIFIED_AHEAD,
    Requests,
    Throttle,
    WaitClock,
)
from rollup_node.stages.messages.base import Message
from rollup_node.stages.messages.blobs import BlobsRequest
from rollup_node.stages.messages.derivation import DerivationWaits
from rollup_node.stages.messages.engine import L2BlocksRequest, StartRequest
from rollup_node.stages.messages.l1 import L1BlocksRequest
from rollup_node.stages.protocol.commitments import Commitment
from rollup_node.stages.protocol.types import BlobRef, L1BlockRef
from tests.conformance.kit.chain import L1Blocks
from tests.stages.derivation.process.test_derivation_log import TASK


class Sent:
    """A client that keeps what is sent."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    def send(self, message: Message) -> None:
        self.messages.append(message)

    def take(self) -> list[Message]:
        result, self.messages = self.messages, []
        return result


class RequestsHarness:
    """Requests with clients that keep what is sent."""

    def __init__(self) -> None:
        self.l1, self.blobs, self.engine = Sent(), Sent(), Sent()
        self.requests = Requests(cast(Client, self.l1), cast(Client, self.blobs), cast(Client, self.engine))


def _need(number: int, count: int) -> NeedBlobs:
    l1 = L1Blocks()
    l1.skip(number)
    return NeedBlobs(l1.last.ref, tuple(BlobRef(index, bytes((index,)) * 32) for index in range(count)))


def _ahead(need: NeedBlobs, may_wait: bool = False) -> BlobsRequest:
    return BlobsRequest(need.block, need.blobs, False, may_wait)


def test_requests_are_repeated_and_new_ones_sent_at_once() -> None:
    harness = RequestsHarness()
    for now in (0.0, REPEAT_SECONDS / 2, REPEAT_SECONDS):
        harness.requests.send(StartRequest(1, None), now)
        harness.requests.send(L1BlocksRequest(5, 3), now)
    harness.requests.send(L1BlocksRequest(6, 3, b"t" * 32), REPEAT_SECONDS)
    assert harness.engine.take() == [StartRequest(1, None)] * 2
    assert harness.l1.take() == [L1BlocksRequest(5, 3)] * 2 + [L1BlocksRequest(6, 3, b"t" * 32)]
    harness.requests.send(L2BlocksRequest(1, 3, 4), REPEAT_SECONDS)
    assert harness.engine.take() == [L2BlocksRequest(1, 3, 4)]


def test_after_a_restart_everything_is_due() -> None:
    harness = RequestsHarness()
    need = _need(1, 1)
    for _ in range(2):
        harness.requests.restart()
        harness.requests.send(L1BlocksRequest(5, 3), 0.0)
        harness.requests.prefetch_blobs([need], None, 0, 0.0)
    assert len(harness.l1.take()) == len(harness.blobs.take()) == 2


def test_blobs_are_prefetched_up_to_the_bound() -> None:
    harness = RequestsHarness()
    needs = [_need(number, 60) for number in (1, 2, 3, 4, 5)]
    fits = MAX_PREFETCHED // (60 * BLOB_BYTES) + 1
    harness.requests.prefetch_blobs(needs, None, 0, 0.0)
    assert harness.blobs.take() == [_ahead(need) for need in needs[:fits]]
    harness.requests.prefetch_blobs(needs, None, MAX_PREFETCHED + 1, 0.0)
    assert harness.blobs.take() == []


def test_the_urgent_need_is_not_prefetched() -> None:
    harness = RequestsHarness()
    urgent, later = _need(1, 1), _need(2, 1)
    harness.requests.send(BlobsRequest(urgent.block, urgent.blobs, True), 0.0)
    harness.requests.prefetch_blobs([urgent, later], urgent, 0, 0.0)
    assert harness.blobs.take() == [BlobsRequest(urgent.block, urgent.blobs, True), _ahead(later)]
    harness.requests.prefetch_blobs([urgent, later], urgent, 0, PREFETCH_SECONDS)
    assert harness.blobs.take() == [_ahead(later)]


def test_blobs_may_wait_while_enough_frames_are_there_and_it_is_said_at_once_when_they_no_longer_may() -> None:
    harness = RequestsHarness()
    needs = [_need(1, 1), _need(2, 1)]
    for held in (VERIFIED_AHEAD + 1, VERIFIED_AHEAD + 1, VERIFIED_AHEAD):
        harness.requests.prefetch_blobs(needs, None, held, 0.0)
    assert harness.blobs.take() == [_ahead(need, may_wait) for may_wait in (True, False) for need in needs]


def test_discarded_names_are_due() -> None:
    throttle = Throttle(1.0)
    for name in ("a", "b"):
        throttle.is_due(name, "message", 0.0)
    throttle.retain({"a"})
    assert not throttle.is_due("a", "message", 0.5)
    assert throttle.is_due("b", "message", 0.5)
    throttle.clear()
    assert throttle.is_due("a", "message", 0.5)


BLOCK = L1BlockRef(b"\1" * 32, 1, b"\0" * 32, 12)


@pytest.mark.parametrize(
    ("need", "waits"),
    [
        (outputs.NeedL1Block(5), DerivationWaits(l1=3)),
        (outputs.NeedChallenges(5), DerivationWaits(l1=3)),
        (outputs.NeedBlobs(BLOCK, ()), DerivationWaits(blobs=3)),
        (outputs.NeedInput(BLOCK, Commitment(0, bytes(32))), DerivationWaits(blobs=3)),
        (outputs.NeedDecoded(b"", TASK), DerivationWaits(compute=3)),
        (outputs.NeedL2Blocks(1, 2), DerivationWaits(engine=3)),
        (outputs.AwaitSafeHead(), DerivationWaits(engine=3)),
        (None, DerivationWaits(engine=3)),
    ],
)
def test_each_need_has_its_process(need: Output | None, waits: DerivationWaits) -> None:
    now = [0.0]
    clock = WaitClock(lambda: now[0])
    clock.waits_for(need)
    now[0] += 3.9
    clock.rests()
    now[0] += 100.0
    clock.works()
    assert clock.waits == waits
    for _ in range(3):
        now[0] += 0.4
        clock.works()
    assert clock.waits.derivation == 1
