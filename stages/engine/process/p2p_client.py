"""What the engine process needs of the p2p process: unsafe blocks, and that sequenced blocks are published.

Both are repeated: the request for blocks every second, a block until the p2p process has published it."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rollup_node.ipc.bus.bus import Bus
from rollup_node.stages.io.log.logger import get_logger
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.p2p import (
    GapEnd,
    LatestBlocksRequest,
    LatestBlocksResponse,
    PublishRequest,
    PublishResponse,
    UnsafeBlock,
    UnsafeBlocksRequest,
)
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.types import BlockId, L2BlockRef

REPEAT_SECONDS = 1.0
MAX_PUBLISHING_SECONDS = 60.0
"""Peers reject an older block."""
MAX_PUBLISHING = 16

log = get_logger("engine")


@dataclass
class _Publishing:
    """A block that is not published yet, as far as is known; times are monotonic seconds."""

    message: PublishRequest
    since: float
    repeat_at: float


class P2PClient:
    """The client of `p2p.blocks`; `on_block` takes the blocks that arrive.

    Publishing errors are logged and counted, and never delay the sequencer [SEQ24]."""

    def __init__(
        self,
        bus: Bus,
        meter: Meter,
        on_block: Callable[[UnsafeBlock | LatestBlocksResponse], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._meter, self._clock = meter, clock
        self._on_block = on_block
        self._last = 0
        self._publishing: dict[int, _Publishing] = {}
        self._request_at = 0.0
        self._error: str | None = None
        self._client = bus.connect("p2p.blocks", self._take)

    def publish(self, payload: ExecutionPayload, parent: L2BlockRef, derived: int) -> None:
        """Have a block signed and gossiped; returns at once.

        Its parent goes with it, and the number up to which the chain is derived from L1."""
        self._last += 1
        message, now = PublishRequest(self._last, payload, parent, derived), self._clock()
        self._publishing[message.id] = _Publishing(message, now, now + REPEAT_SECONDS)
        self._client.send(message)
        if len(self._publishing) > MAX_PUBLISHING:
            self._give_up(next(iter(self._publishing)), "too many newer blocks are not published either")

    def request(self, head: int, gap_end: ExecutionPayload | None) -> None:
        """Request blocks above the unsafe head's number; with the block above a gap, those in the gap too."""
        end = None if gap_end is None else GapEnd(gap_end.block_number, gap_end.block_hash, gap_end.parent_hash)
        self._client.send(UnsafeBlocksRequest(head, end))
        self._request_at = self._clock() + REPEAT_SECONDS

    def request_latest(self, head: BlockId) -> None:
        """Request the latest blocks above the unsafe head.

        Those that are not published yet are sent before, so that they count among them."""
        for waiting in self._publishing.values():
            self._client.send(waiting.message)
        self._client.send(LatestBlocksRequest(head))

    def repeat(self, head: int) -> None:
        """Repeat what is due; to be called about every second."""
        now = self._clock()
        if now >= self._request_at:
            self.request(head, None)
        for number, waiting in list(self._publishing.items()):
            if now - waiting.since > MAX_PUBLISHING_SECONDS:
                self._give_up(number, "the p2p process did not publish it in time")
            elif now >= waiting.repeat_at:
                waiting.repeat_at = now + REPEAT_SECONDS
                self._client.send(waiting.message)

    def _give_up(self, number: int, reason: str) -> None:
        block = self._publishing.pop(number).message.payload
        self._meter.count("publishing_errors")
        write = log.debug if reason == self._error else log.warn
        text, code = "failed to publish sequenced block", Code.BLOCK_NOT_SIGNED.text
        write(text, code=code, number=block.block_number, error=reason)
        self._error = reason

    def _take(self, message: Any) -> None:
        if isinstance(message, UnsafeBlock | LatestBlocksResponse):
            self._on_block(message)
        elif isinstance(message, PublishResponse) and message.id in self._publishing:
            if message.error is not None:
                self._give_up(message.id, message.error)
            else:
                del self._publishing[message.id]
                self._error = None
