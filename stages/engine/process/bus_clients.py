"""The clients of the l1 and the p2p process, which repeat requests until they are answered."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rollup_node.ipc.bus.bus import Bus
from rollup_node.stages.io.l1_refs import L1RefsClient
from rollup_node.stages.io.log.logger import Logger
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.messages import p2p
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.l1 import L1BlockResponse, L1BlocksRequest
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.types import BlockId, L1BlockRef, L2BlockRef

REPEAT_SECONDS = 0.6
BATCHES = (1, 16, 128)
"""How many references are requested at once: more, the longer a search walks down."""
MAX_REFS = 8192


class L1Client:
    """The client of `l1.origins`. `on_block` takes each block that was requested."""

    def __init__(
        self, bus: Bus, on_block: Callable[[L1BlockResponse], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._on_block, self._clock = on_block, clock
        self._refs: dict[int, L1BlockRef] = {}
        self._lowest = self._pace = 0
        self._wanted: tuple[int, int] = (0, 0)
        self._requested_at = 0.0
        self._client = L1RefsClient(bus, self._take)

    async def ref(self, number: int, fresh: bool = False) -> L1BlockRef | None:
        """Return the canonical L1 block of a number, or None; `fresh` forgets others. Raises TemporaryError."""
        if fresh:
            self._refs.clear()
        if number not in self._refs:
            self._pace = min(self._pace + 1, len(BATCHES) - 1) if number == self._lowest - 1 else 0
            refs = await self._client.ask(number, BATCHES[self._pace])
            if len(self._refs) + len(refs) > MAX_REFS:
                self._refs.clear()
            self._refs.update({ref.number: ref for ref in refs})
            self._lowest = number - len(refs) + 1
        return self._refs.get(number)

    def request(self, first: int, count: int) -> None:
        """Request blocks: at once if they are others than before, else at most every REPEAT_SECONDS."""
        now = self._clock()
        if (first, count) != self._wanted or now - self._requested_at >= REPEAT_SECONDS:
            self._wanted, self._requested_at = (first, count), now
            self._client.send(L1BlocksRequest(first, count))

    def _take(self, message: Any) -> None:
        first, count = self._wanted
        if isinstance(message, L1BlockResponse) and first <= message.block.header.number < first + count:
            self._on_block(message)


P2P_REPEAT_SECONDS = 1.0
MAX_PUBLISHING_SECONDS = 60.0
"""Peers reject an older block."""
MAX_PUBLISHING = 16

log = Logger("engine")


@dataclass
class _Publishing:
    """A block that is not published yet, as far as is known; times are monotonic seconds."""

    message: p2p.PublishRequest
    since: float
    repeat_at: float


class P2PClient:
    """The client of `p2p.blocks`; `on_block` takes what arrives. Errors never delay the sequencer [SEQ24]."""

    def __init__(
        self,
        bus: Bus,
        meter: Meter,
        on_block: Callable[[p2p.UnsafeBlock | p2p.LatestBlocksResponse], None],
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
        """Have a block signed and gossiped, with its parent and the number up to which the chain is derived."""
        self._last += 1
        message, now = p2p.PublishRequest(self._last, payload, parent, derived), self._clock()
        self._publishing[message.id] = _Publishing(message, now, now + P2P_REPEAT_SECONDS)
        self._client.send(message)
        if len(self._publishing) > MAX_PUBLISHING:
            self._give_up(next(iter(self._publishing)), "too many newer blocks are not published either")

    def request(self, head: int, gap_end: ExecutionPayload | None) -> None:
        """Request blocks above the unsafe head's number; with the block above a gap, those in the gap too."""
        end = None if gap_end is None else p2p.GapEnd(gap_end.block_number, gap_end.block_hash, gap_end.parent_hash)
        self._client.send(p2p.UnsafeBlocksRequest(head, end))
        self._request_at = self._clock() + P2P_REPEAT_SECONDS

    def request_latest(self, head: BlockId) -> None:
        """Request the latest blocks above the unsafe head; those that are not published yet are sent before."""
        for waiting in self._publishing.values():
            self._client.send(waiting.message)
        self._client.send(p2p.LatestBlocksRequest(head))

    def repeat(self, head: int) -> None:
        """Repeat what is due; to be called about every second."""
        now = self._clock()
        if now >= self._request_at:
            self.request(head, None)
        for number, waiting in list(self._publishing.items()):
            if now - waiting.since > MAX_PUBLISHING_SECONDS:
                self._give_up(number, "the p2p process did not publish it in time")
            elif now >= waiting.repeat_at:
                waiting.repeat_at = now + P2P_REPEAT_SECONDS
                self._client.send(waiting.message)

    def _give_up(self, number: int, reason: str) -> None:
        block = self._publishing.pop(number).message.payload
        self._meter.count("publishing_errors")
        write = log.debug if reason == self._error else log.warn
        text, code = "failed to publish sequenced block", Code.BLOCK_NOT_SIGNED.text
        write(text, code=code, number=block.block_number, error=reason)
        self._error = reason

    def _take(self, message: Any) -> None:
        if isinstance(message, p2p.UnsafeBlock | p2p.LatestBlocksResponse):
            self._on_block(message)
        elif isinstance(message, p2p.PublishResponse) and message.id in self._publishing:
            if message.error is not None:
                self._give_up(message.id, message.error)
            else:
                del self._publishing[message.id]
                self._error = None
