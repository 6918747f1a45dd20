"""What the interop process sees of one chain: its heads, its blocks, and the L1 blocks they became safe with [VR3]."""

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

from rollup_node.ipc.bus.bus import Bus, GroupView
from rollup_node.stages.interop.block_content import BlockContent
from rollup_node.stages.interop.config import ChainEngine
from rollup_node.stages.interop.process.engine_reader import EngineReader
from rollup_node.stages.interop.rounds import NO_L1_BLOCK, ChainBlock, WaitReason
from rollup_node.stages.io.requests import RequestClient
from rollup_node.stages.messages.control import (
    L1_HISTORY_UNAVAILABLE,
    L1AtSafeHeadRequest,
    SafeHeadResponse,
)
from rollup_node.stages.messages.engine import EngineStatus
from rollup_node.stages.protocol.errors import TemporaryError
from rollup_node.stages.protocol.types import BlockId, L2BlockRef

AHEAD = 32
"""Blocks that are read at once where the chain is ahead of the rounds."""
PATIENCE_SECONDS = 10.0


class _Inclusion(NamedTuple):
    """The L1 block with which the blocks of these numbers became safe."""

    first: int
    last: int
    l1: BlockId


class ChainView:
    """One chain; `on_change` is called when its heads change. `error` is why its last answer was none, or empty.

    What was read is used as long as the chain goes on from the same start: below its local safe block nothing changes
    before it searches for another one."""

    def __init__(self, engine: ChainEngine, bus: Bus | GroupView, on_change: Callable[[], None]) -> None:
        self.rollup, self._on_change = engine.rollup, on_change
        self.status: EngineStatus | None = None
        self.error = ""
        self.reader = EngineReader(engine)
        self._control = RequestClient(bus, "engine.control")
        self._blocks: dict[int, BlockContent] = {}
        self._inclusion: _Inclusion | None = None
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
        self._blocks, self._inclusion = {}, None

    def _on_status(self, message: Any) -> None:
        if not isinstance(message, EngineStatus):
            return
        if self.status is None or message.reset != self.status.reset or message.local_safe is None:
            self.forget()
        self.status = message
        self._on_change()

    async def observe(self, number: int) -> ChainBlock | WaitReason:
        """Return the local safe block of a number with its L1 block [VR3]."""
        self.error, start = "", self.status
        if start is None or not self._has(number):
            return WaitReason.NOT_READY
        try:
            # The block is read first: what the engine process says after it is still so for it.
            content = await self._content(number)
            l1 = await self._l1_of(content.logs.block.id)
        except TemporaryError as error:
            self.error = str(error)
            return WaitReason.NOT_READY
        if self.status is None or self.status.reset != start.reset or not self._has(number):
            return WaitReason.NOT_READY
        if isinstance(l1, WaitReason):
            return l1
        for read in [read for read in self._blocks if read < number]:
            del self._blocks[read]
        return ChainBlock(content.logs, l1, content.state_root, content.storage_root)

    def _has(self, number: int) -> bool:
        return self.local_safe is not None and self.rollup.genesis.l2.number <= number <= self.local_safe.number

    async def _content(self, number: int) -> BlockContent:
        if number not in self._blocks:
            assert self.status is not None and self.local_safe is not None
            reset, last = self.status.reset, min(number + AHEAD - 1, self.local_safe.number)
            blocks = await self.reader.blocks(number, last)
            if self.status.reset != reset:
                raise TemporaryError("the chain began again while its blocks were read")
            self._blocks = dict(enumerate(blocks, number))
        return self._blocks[number]

    async def _l1_of(self, block: BlockId) -> BlockId | WaitReason:
        if block.number == self.rollup.genesis.l2.number:
            return NO_L1_BLOCK
        known = self._inclusion
        if known is None or not known.first <= block.number <= known.last:
            try:
                async with asyncio.timeout(PATIENCE_SECONDS):
                    response = await self._control.request(lambda id_: L1AtSafeHeadRequest(id_, block.number))
            except TimeoutError:
                raise TemporaryError("its engine process does not answer") from None
            if not isinstance(response, SafeHeadResponse) or response.error is not None:
                self.error = str(response.error)
                gap = response.error == L1_HISTORY_UNAVAILABLE
                return WaitReason.NO_HISTORY if gap else WaitReason.NOT_READY
            head = response.safe_head
            if head.number < block.number or (head.number == block.number and head != block):
                # The database is behind the heads, which it is written after.
                return WaitReason.NOT_READY
            known = self._inclusion = _Inclusion(block.number, head.number, response.l1_block)
        return known.l1
