"""Blocks between the p2p and the engine process: published once, and sent again to a restarted engine process."""

from typing import Any, cast

import pytest

from rollup_node.ipc.bus.bus import Bus, ProcessId
from rollup_node.stages.messages.p2p import (
    GapEnd,
    LatestBlocksRequest,
    LatestBlocksResponse,
    PublishRequest,
    PublishResponse,
    UnsafeBlock,
    UnsafeBlocksRequest,
)
from rollup_node.stages.p2p.blocks.latest_blocks import MAX_RECENT, LatestBlocks
from rollup_node.stages.p2p.process.unsafe_blocks_server import UnsafeBlocksServer
from rollup_node.stages.p2p.signer.signing_queue import Done
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.types import BlockId
from tests.support.p2p.blocks import chain, publish_request
from tests.support.processes.recording_bus import RecordingBus

BLOCKS = chain(MAX_RECENT + 2)
ENGINE = ProcessId(slot=0, incarnation=1)
RESTARTED = ENGINE._replace(incarnation=2)
GAP_END = GapEnd(9, b"\x01" * 32, b"\x02" * 32)


class Harness:
    """A server between a recorded bus and recorded callbacks."""

    def __init__(self, error: str | None = None) -> None:
        self.published: list[ExecutionPayload] = []
        self.gaps: list[tuple[int, GapEnd]] = []
        self.waiting: list[Done] = []
        self.is_ready, self.is_slow = True, False
        self._error = error
        self.bus = RecordingBus()
        self.server = UnsafeBlocksServer(
            cast(Bus, self.bus),
            self._publish,
            lambda: self.is_ready,
            lambda head, end: self.gaps.append((head, end)),
            LatestBlocks(None),
        )

    def _publish(self, request: PublishRequest, done: Done) -> None:
        self.published.append(request.payload)
        self.waiting.append(done)
        if not self.is_slow:
            done(self._error)

    def receive(self, sender: ProcessId, message: Any) -> list[tuple[ProcessId | None, Any]]:
        """Return what the server sends upon a message of the engine process."""
        self.bus.sent.clear()
        self.bus.handlers["p2p.blocks"](sender, message)
        return list(self.bus.sent)


@pytest.fixture
def harness() -> Harness:
    return Harness()


def test_a_block_is_published_once_however_often_it_is_requested(harness: Harness) -> None:
    for _ in range(3):
        assert harness.receive(ENGINE, publish_request(BLOCKS[0], 1)) == [(ENGINE, PublishResponse(1, None))]
    assert harness.published == [BLOCKS[0]] and harness.server.published == 1


def test_a_publish_error_is_not_retried() -> None:
    harness = Harness(error="no key")
    for _ in range(2):
        assert harness.receive(ENGINE, publish_request(BLOCKS[0], 1)) == [(ENGINE, PublishResponse(1, "no key"))]
    assert harness.published == [BLOCKS[0]] and harness.server.published == 0


def test_nothing_is_published_before_the_signer_is_known(harness: Harness) -> None:
    harness.is_ready = False
    assert harness.receive(ENGINE, publish_request(BLOCKS[0], 1)) == [] and harness.published == []
    harness.is_ready = True
    assert harness.receive(ENGINE, publish_request(BLOCKS[0], 1)) == [(ENGINE, PublishResponse(1, None))]


def test_a_block_that_waits_for_its_signature_is_answered_later(harness: Harness) -> None:
    harness.is_slow = True
    for _ in range(2):
        assert harness.receive(ENGINE, publish_request(BLOCKS[0], 1)) == []
    assert harness.published == [BLOCKS[0]], "repeated requests are one"
    harness.waiting[0](None)
    assert harness.bus.sent == [(ENGINE, PublishResponse(1, None))]
    assert harness.receive(ENGINE, publish_request(BLOCKS[0], 1)) == [(ENGINE, PublishResponse(1, None))]


def test_the_answer_to_a_dead_engine_process_is_not_sent_to_the_next_one(harness: Harness) -> None:
    harness.is_slow = True
    harness.receive(ENGINE, publish_request(BLOCKS[0], 1))
    harness.receive(RESTARTED, UnsafeBlocksRequest(0, None))
    harness.waiting[0](None)
    assert harness.bus.sent == [] and harness.server.published == 1, "the answer is none to the restarted engine"


def test_blocks_of_peers_are_sent_at_once(harness: Harness) -> None:
    assert harness.receive(ENGINE, UnsafeBlocksRequest(0, None)) == []
    harness.server.send_block(BLOCKS[0])
    assert harness.bus.sent == [(ENGINE, UnsafeBlock(BLOCKS[0]))]


def test_a_restarted_engine_gets_the_latest_blocks_of_peers_again(harness: Harness) -> None:
    harness.receive(ENGINE, publish_request(BLOCKS[0], 1))
    for block in BLOCKS:
        harness.server.send_block(block)
    sent = harness.receive(RESTARTED, UnsafeBlocksRequest(0, None))
    assert sent == [(RESTARTED, UnsafeBlock(block)) for block in BLOCKS[-MAX_RECENT:]]
    sent = harness.receive(RESTARTED, publish_request(BLOCKS[1], 1))
    assert sent == [(RESTARTED, PublishResponse(1, None))] and len(harness.published) == 2, "ids are per incarnation"


def test_messages_of_a_dead_engine_are_ignored(harness: Harness) -> None:
    harness.receive(RESTARTED, UnsafeBlocksRequest(0, None))
    assert harness.receive(ENGINE, publish_request(BLOCKS[0], 9)) == [] and harness.published == []


def test_a_gap_is_passed_on(harness: Harness) -> None:
    harness.receive(ENGINE, UnsafeBlocksRequest(3, None))
    harness.receive(ENGINE, UnsafeBlocksRequest(3, GAP_END))
    assert harness.gaps == [(3, GAP_END)]


def test_the_latest_blocks_above_a_head_are_sent_once_the_process_is_ready(harness: Harness) -> None:
    harness.is_ready = False
    for block in BLOCKS[:4]:
        harness.server.send_block(block)
    head = BlockId(2, BLOCKS[1].block_hash)
    assert harness.receive(ENGINE, LatestBlocksRequest(head)) == [(ENGINE, UnsafeBlock(block)) for block in BLOCKS[:4]]
    harness.is_ready = True
    sent = [(ENGINE, LatestBlocksResponse(head, tuple(BLOCKS[2:4])))]
    assert harness.receive(ENGINE, LatestBlocksRequest(head)) == sent
