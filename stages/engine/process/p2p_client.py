"""What the engine process asks of the p2p process: unsafe blocks, and to publish the blocks it sequenced. Both are
repeated needs: blocks are wanted again every second, a block is handed over until it is said to be out."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rollup_node.ipc.bus.bus import Bus
from rollup_node.stages.io.log import get_logger
from rollup_node.stages.io.metrics import Meter
from rollup_node.stages.messages.p2p import GapEnd, PublishRequest, PublishResponse, UnsafeBlock, UnsafeBlocksRequest
from rollup_node.stages.protocol.payloads import ExecutionPayload

AGAIN = 1.0
LONGEST_PUBLISHING = 60.0
"""Seconds after which peers would refuse a block for its age."""
MOST_PUBLISHING = 16

log = get_logger("engine")


@dataclass
class _Publishing:
    """A block that is not known to be out; times are monotonic seconds."""

    message: PublishRequest
    since: float
    again_at: float


class PeersClient:
    """The client of `p2p.blocks`; `on_block` is told of each block that comes. Publishing errors are logged, counted,
    and never hold up the sequencer (node-behaviour 12.6)."""

    def __init__(self, bus: Bus, meter: Meter, on_block: Callable[[ExecutionPayload], None]) -> None:
        self._meter = meter
        self._on_block = on_block
        self._last = 0
        self._publishing: dict[int, _Publishing] = {}
        self._want_at = 0.0
        self._problem: str | None = None
        self._client = bus.connect("p2p.blocks", self._take)

    def publish(self, payload: ExecutionPayload) -> None:
        """Hands a block over to be signed and gossiped; returns at once."""
        self._last += 1
        message, now = PublishRequest(self._last, payload), time.monotonic()
        self._publishing[message.id] = _Publishing(message, now, now + AGAIN)
        self._client.send(message)
        if len(self._publishing) > MOST_PUBLISHING:
            self._give_up(next(iter(self._publishing)), "too many newer blocks wait too")

    def want(self, head: int, gap_end: ExecutionPayload | None) -> None:
        """Asks for blocks above the unsafe head's number; with the block above a gap, for those in the gap too."""
        end = None if gap_end is None else GapEnd(gap_end.block_number, gap_end.block_hash, gap_end.parent_hash)
        self._client.send(UnsafeBlocksRequest(head, end))
        self._want_at = time.monotonic() + AGAIN

    def repeat(self, head: int) -> None:
        """Sends again what has waited for long enough; to be called about every second."""
        now = time.monotonic()
        if now >= self._want_at:
            self.want(head, None)
        for number, waiting in list(self._publishing.items()):
            if now - waiting.since > LONGEST_PUBLISHING:
                self._give_up(number, "the p2p process did not take it in time")
            elif now >= waiting.again_at:
                waiting.again_at = now + AGAIN
                self._client.send(waiting.message)

    def _give_up(self, number: int, reason: str) -> None:
        block = self._publishing.pop(number).message.payload
        self._meter.count("publishing_errors")
        tell = log.debug if reason == self._problem else log.warn
        tell("a sequenced block was not published", number=block.block_number, reason=reason)
        self._problem = reason

    def _take(self, message: Any) -> None:
        if isinstance(message, UnsafeBlock):
            self._on_block(message.payload)
        elif isinstance(message, PublishResponse) and message.id in self._publishing:
            if message.error is not None:
                self._give_up(message.id, message.error)
            else:
                del self._publishing[message.id]
                self._problem = None
