"""What the interop process sees of one chain and of L1: heads, blocks, and hashes by number [VR3, VR4]."""

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import msgspec

from rollup_node.ipc.bus.bus import Bus, GroupView
from rollup_node.stages.interop.config import ChainEngine
from rollup_node.stages.interop.process.engine_reader import EngineReader
from rollup_node.stages.interop.rounds import ChainBlock, L1Hashes, WaitReason
from rollup_node.stages.io.l1_refs import L1RefsClient
from rollup_node.stages.io.requests import RequestClient
from rollup_node.stages.messages.control import (
    L1_HISTORY_UNAVAILABLE,
    L1_NOT_FOUND,
    L1AtSafeHeadRequest,
    SafeHeadResponse,
)
from rollup_node.stages.messages.engine import EngineStatus
from rollup_node.stages.messages.l1 import L1Heads
from rollup_node.stages.protocol.errors import TemporaryError
from rollup_node.stages.protocol.types import BlockId, Hash, L1BlockRef, L2BlockRef

AHEAD = 32
"""Blocks that are read at once where the chain is ahead of the rounds."""
PATIENCE_SECONDS = 10.0
MAX_KNOWN = 4096


@dataclass
class _Segment:
    """Blocks from `first` on that became safe with one L1 block, up to the safe head then; `blocks` are those read."""

    first: int
    safe_head: BlockId
    l1: BlockId
    blocks: dict[int, ChainBlock]


class ChainView:
    """One chain; `on_change` is called when its heads change. `error` is why its last answer was none, or empty.

    `status` is what its engine process has said last, without blocks before.

    A block and its L1 block are of one state of the chain: the safe head database is asked first, and its safe head has
    to be the engine's after the block was read. They may be of an earlier state, as L1 tells."""

    def __init__(
        self, engine: ChainEngine, genesis: BlockId, bus: Bus | GroupView, on_change: Callable[[], None]
    ) -> None:
        self._genesis, self._on_change = genesis, on_change
        self.status = EngineStatus(0, None, None, None, None, None, False, False)
        self.error = ""
        self.reader = EngineReader(engine)
        self._control = RequestClient(bus, "engine.control")
        self._segment: _Segment | None = None
        bus.subscribe("status.engine", self._on_status)

    @property
    def local_safe(self) -> L2BlockRef | None:
        """The last block that is derived, None while that is not known."""
        return self.status.local_safe

    @property
    def start(self) -> L2BlockRef | None:
        """The local safe block with which the chain has started; what came after it was derived since."""
        return self.status.start or self.status.local_safe

    def forget(self) -> None:
        """Read all blocks again."""
        self._segment = None

    def _on_status(self, message: Any) -> None:
        if not isinstance(message, EngineStatus):
            return
        if message.reset != self.status.reset or message.local_safe is None:
            self.forget()
        self.status = message
        self._on_change()

    def known(self, number: int) -> ChainBlock | WaitReason:
        """Return what `observe` would, as far as it is read [VR6]."""
        segment, head = self._segment, self.local_safe
        if segment is None or head is None or number not in segment.blocks or number > head.number:
            return WaitReason.NOT_READY
        return segment.blocks[number]

    async def observe(self, number: int) -> ChainBlock | WaitReason:
        """Return the local safe block of a number with its L1 block [VR3]."""
        self.error, genesis = "", self._genesis
        if self.local_safe is None or not genesis.number <= number <= self.local_safe.number:
            return WaitReason.NOT_READY
        try:
            if number == genesis.number:
                (block,) = await self.reader.blocks(number, number)
                return block
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
        return segment.blocks[number]

    async def _find_segment(self, number: int) -> _Segment | WaitReason:
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                response = await self._control.request(L1AtSafeHeadRequest, number)
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
        l1 = segment.l1
        segment.blocks = {number: msgspec.structs.replace(block, l1=l1) for number, block in enumerate(blocks, number)}
        at_head = blocks[-1].logs.block.hash if last == head.number else await self.reader.block_hash(head.number)
        return at_head == head.hash


class L1Reader:
    """Asks for each block once as long as L1's chain only grows, so that rounds cost L1 next to nothing.

    `final` is the number of L1's finalized block while the hashes are known to be of its chain, else 0 [LB4, FIN9].
    `on_change` is called when the head or the finalized block changes."""

    def __init__(self, bus: Bus, on_change: Callable[[], None]) -> None:
        self.final, self._on_change = 0, on_change
        self._head: L1BlockRef | None = None
        self._finalized: L1BlockRef | None = None
        self._known: dict[int, Hash] = {}
        self._refs = L1RefsClient(bus)
        bus.subscribe("status.l1", self._on_status)

    def known(self, numbers: Collection[int]) -> L1Hashes:
        """Return what `hashes` would, without those that it would ask for."""
        return {number: self._known.get(number) for number in numbers}

    async def hashes(self, numbers: Collection[int], *, fresh: bool = False) -> L1Hashes:
        """Return the hashes of blocks by number; `fresh` asks for all of them. Raises TemporaryError."""
        if fresh:
            self._known.clear()
        head, finalized = self._head, self._finalized
        wanted = dict.fromkeys(numbers if finalized is None else (*numbers, finalized.number))
        missing = [number for number in wanted if number not in self._known]
        read = dict(zip(missing, await asyncio.gather(*map(self._hash, missing)), strict=True))
        result = {**self.known(wanted), **read}
        if finalized is not None and finalized == self._finalized:
            self.final = finalized.number if result[finalized.number] == finalized.hash else 0
        if head is not None and head == self._head:
            known = {number: hashed for number, hashed in read.items() if hashed is not None}
            self._keep({number: hashed for number, hashed in known.items() if number < head.number})
        return result

    def _keep(self, hashes: dict[int, Hash]) -> None:
        if len(self._known) + len(hashes) > MAX_KNOWN:
            self._known.clear()
        self._known |= hashes

    async def _hash(self, number: int) -> Hash | None:
        """Return the hash of one block, None if L1 has none of that number."""
        refs = await self._refs.ask(number)
        return refs[-1].hash if refs else None

    def _on_status(self, message: Any) -> None:
        if not isinstance(message, L1Heads):
            return
        if message.head != self._head:
            head, before = message.head, self._head
            if head is None or before is None or head.parent_hash != before.hash:
                self._known.clear()
            if head is not None:
                self._keep({head.number: head.hash})
            self._head = head
        if message.finalized != self._finalized:
            self._finalized, self.final = message.finalized, 0
        self._on_change()
