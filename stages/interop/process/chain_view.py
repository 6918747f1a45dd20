"""What the interop process sees of one chain: its heads, its blocks, and the L1 blocks they became safe with [VR3]."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rollup_node.ipc.bus.bus import Bus, GroupView
from rollup_node.stages.interop.block_content import BlockContent
from rollup_node.stages.interop.config import ChainEngine
from rollup_node.stages.interop.process.engine_reader import EngineReader
from rollup_node.stages.interop.rounds import NO_L1_BLOCK, ChainBlock, WaitReason
from rollup_node.stages.io.requests import RequestClient
from rollup_node.stages.messages.control import (
    L1_HISTORY_UNAVAILABLE,
    L1_NOT_FOUND,
    L1AtSafeHeadRequest,
    SafeHeadResponse,
)
from rollup_node.stages.messages.engine import EngineStatus
from rollup_node.stages.protocol.errors import TemporaryError
from rollup_node.stages.protocol.types import BlockId, L2BlockRef

AHEAD = 32
"""Blocks that are read at once where the chain is ahead of the rounds."""
PATIENCE_SECONDS = 10.0


@dataclass
class _Segment:
    """Blocks from `first` on that became safe with one L1 block, up to the safe head then; `blocks` are those read."""

    first: int
    safe_head: BlockId
    l1: BlockId
    blocks: dict[int, BlockContent]


class ChainView:
    """One chain; `on_change` is called when its heads change. `error` is why its last answer was none, or empty.

    A block and its L1 block are of one state of the chain: the safe head database is asked first, and its safe head has
    to be the engine's after the block was read. They may be of an earlier state, as L1 tells."""

    def __init__(self, engine: ChainEngine, bus: Bus | GroupView, on_change: Callable[[], None]) -> None:
        self.rollup, self._on_change = engine.rollup, on_change
        self.status: EngineStatus | None = None
        self.error = ""
        self.reader = EngineReader(engine)
        self._control = RequestClient(bus, "engine.control")
        self._segment: _Segment | None = None
        bus.subscribe("status.engine", self._on_status)

    async def close(self) -> None:
        await self.reader.close()

    @property
    def local_safe(self) -> L2BlockRef | None:
        """The last block that is derived, None while that is not known."""
        return None if self.status is None else self.status.local_safe

    @property
    def transition(self) -> int:
        """The last transition that the chain has carried out in this life of its engine process."""
        return 0 if self.status is None else self.status.transition

    def forget(self) -> None:
        """Read all blocks again."""
        self._segment = None

    def _on_status(self, message: Any) -> None:
        if not isinstance(message, EngineStatus):
            return
        if self.status is None or message.reset != self.status.reset or message.local_safe is None:
            self.forget()
        self.status = message
        self._on_change()

    def known(self, number: int) -> ChainBlock | WaitReason:
        """Return what `observe` would, as far as it is read [VR6]."""
        segment, head = self._segment, self.local_safe
        if segment is None or head is None or number not in segment.blocks or number > head.number:
            return WaitReason.NOT_READY
        return _chain_block(segment.blocks[number], segment.l1)

    async def observe(self, number: int) -> ChainBlock | WaitReason:
        """Return the local safe block of a number with its L1 block [VR3]."""
        self.error, genesis = "", self.rollup.genesis.l2
        if self.local_safe is None or not genesis.number <= number <= self.local_safe.number:
            return WaitReason.NOT_READY
        try:
            if number == genesis.number:
                (content,) = await self.reader.blocks(number, number)
                return _chain_block(content, NO_L1_BLOCK)
            return await self._safe_block(number)
        except TemporaryError as error:
            self.error = str(error)
            return WaitReason.NOT_READY

    async def _safe_block(self, number: int) -> ChainBlock | WaitReason:
        segment = self._segment
        if segment is None or not segment.first <= number <= segment.safe_head.number:
            result = await self._find_segment(number)
            if isinstance(result, WaitReason):
                return result
            segment = self._segment = result
        if number not in segment.blocks and not await self._read(segment, number):
            self.forget()
            return WaitReason.NOT_READY
        return _chain_block(segment.blocks[number], segment.l1)

    async def _find_segment(self, number: int) -> _Segment | WaitReason:
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                response = await self._control.request(lambda id_: L1AtSafeHeadRequest(id_, number))
        except TimeoutError:
            raise TemporaryError("its engine process does not answer") from None
        if isinstance(response, SafeHeadResponse) and response.error is None:
            return _Segment(number, response.safe_head, response.l1_block, {})
        if response.error == L1_HISTORY_UNAVAILABLE:
            return WaitReason.NO_HISTORY
        self.error = "" if response.error == L1_NOT_FOUND else str(response.error)
        return WaitReason.NOT_READY

    async def _read(self, segment: _Segment, number: int) -> bool:
        """Read the next blocks of a segment; return whether the engine still has its safe head."""
        head = segment.safe_head
        last = min(number + AHEAD - 1, head.number)
        blocks = await self.reader.blocks(number, last)
        segment.blocks = dict(enumerate(blocks, number))
        at_head = blocks[-1].logs.block.hash if last == head.number else await self.reader.block_hash(head.number)
        return at_head == head.hash


def _chain_block(content: BlockContent, l1: BlockId) -> ChainBlock:
    return ChainBlock(content.logs, l1, content.state_root, content.storage_root)
