"""The engine's blocks for a walk down over parents: read ahead by number, many at once, and known by their hashes."""

from collections.abc import Sequence
from typing import Protocol

from rollup_node.stages.protocol.types import Hash, L2BlockRef

AHEAD = 20


class Blocks(Protocol):
    """The calls of the execution engine's client that are needed here."""

    async def ref(self, name: bytes) -> L2BlockRef | None:
        """The block of a hash."""

    async def refs(self, first: int, last: int) -> Sequence[L2BlockRef]:
        """Those canonical blocks of a range that are there and can be read."""


class Ancestors:
    """For one walk."""

    def __init__(self, blocks: Blocks) -> None:
        self._blocks = blocks
        self._ahead: dict[Hash, L2BlockRef] = {}

    async def parent(self, block: L2BlockRef) -> L2BlockRef | None:
        """The parent of a block, None if the engine has not got it."""
        wanted, last = block.parent_hash, block.number - 1
        if wanted not in self._ahead:
            self._ahead = {ref.hash: ref for ref in await self._blocks.refs(max(0, last - AHEAD + 1), last)}
        return self._ahead.get(wanted) or await self._blocks.ref(wanted)
