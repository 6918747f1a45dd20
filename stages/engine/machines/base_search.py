"""The base, the L1 block where derivation starts to read: a walk from the safe head back over its parents, so that
every channel that may still be open is found [RS1, RS2].

All blocks of an epoch have the same origin, so the walk goes from epoch to epoch."""

import msgspec

from rollup_node.stages.engine.api.l2_block_info import L2BlockInfo
from rollup_node.stages.protocol.config import RollupConfig, SystemConfig
from rollup_node.stages.protocol.errors import ResetError
from rollup_node.stages.protocol.types import BlockId


class NeedBlock(msgspec.Struct, frozen=True):
    """The canonical L2 block of a number."""

    number: int


class Base(msgspec.Struct, frozen=True):
    """The L1 block to start with, and the system config of the L2 block where the walk ended."""

    base: BlockId
    config: SystemConfig


class BaseSearch:
    """Needs blocks, one at a time, until the base is found."""

    def __init__(self, rollup: RollupConfig, safe: L2BlockInfo) -> None:
        self.rollup = rollup
        self.schedule = rollup.schedule()
        self.safe = safe
        self.at = safe

    def next(self) -> NeedBlock | Base:
        """The next need, or the result."""
        if self._ends_here():
            return Base(self.at.ref.l1_origin, self.at.config)
        return NeedBlock(self.at.ref.number - self.at.ref.sequence_number - 1)

    def add_block(self, number: int, block: L2BlockInfo | None) -> None:
        """Takes the block of `number`, None if the engine has none; a number that is not needed is ignored. Raises
        ResetError when the chain below the safe head is broken [RS5]."""
        need = self.next()
        if not isinstance(need, NeedBlock) or need.number != number:
            return
        if block is None or number < self.rollup.genesis.l2.number:
            raise ResetError(f"the engine has no block {number} below its safe head {self.safe.ref}")
        if block.ref.l1_origin.number >= self.at.ref.l1_origin.number or block.ref.number != number:
            raise ResetError(f"block {block.ref} does not fit block {self.at.ref} above it")
        self.at = block

    def _ends_here(self) -> bool:
        ref, genesis = self.at.ref, self.rollup.genesis
        if ref.number <= genesis.l2.number or ref.l1_origin.number <= genesis.l1.number:
            return True
        timeout = self.schedule.l1(self.at.origin_time).channel_timeout
        return ref.l1_origin.number + timeout <= self.safe.ref.l1_origin.number
