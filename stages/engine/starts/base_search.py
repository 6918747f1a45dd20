"""The base, the L1 block where derivation starts to read: the first block of a walk from the safe head back over its
parents that is a channel timeout below it, so that every channel that may still be open is found [RS1, RS2], and with
Alt-DA every input that may still be taken out of the chain [ADA14].

L1 origins never fall from one L2 block to the next and skip no L1 block, so that block is searched for by number: about
ten of the hundreds of blocks are read."""

import msgspec

from rollup_node.stages.engine.calls.l2_block_info import L2BlockInfo
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


class MissingBlockError(ResetError):
    """The engine lacks a block of the chain below its safe head, or that head."""


class BaseSearch:
    """Needs blocks, one at a time, until the base is found. `above` is the lowest known block on the walk, and `below`
    the number and origin number of a block beneath its end; `origin` is that of the block where the walk ends.
    `look_back` is how many L1 blocks below the safe head's origin the base lies at least."""

    def __init__(self, rollup: RollupConfig, safe: L2BlockInfo, look_back: int = 0) -> None:
        self.rollup, self.look_back = rollup, look_back
        self.schedule = rollup.schedule()
        self.safe = safe
        self.found: L2BlockInfo | None = None
        self.reads = 0
        self.steps_by_epoch = False
        self.above, self.below = safe, (rollup.genesis.l2.number, rollup.genesis.l1.number)
        self.depth = self.origin = 0
        self._walk_from(safe)

    def next(self) -> NeedBlock | Base:
        """The next need, or the result."""
        if self.found is not None:
            return Base(self.found.ref.l1_origin, self.found.config)
        return NeedBlock(self._guess())

    def add_block(self, number: int, block: L2BlockInfo | None) -> None:
        """Takes the block of `number`, None if the engine has none; a number that is not needed is ignored. Raises
        ResetError when the chain below the safe head is broken [RS5]."""
        need = self.next()
        if not isinstance(need, NeedBlock) or need.number != number:
            return
        if block is None or number < self.rollup.genesis.l2.number:
            raise MissingBlockError(f"the engine has no block {number} below its safe head {self.safe.ref}")
        highest = self.above.ref.l1_origin.number
        fits = self.below[1] <= block.ref.l1_origin.number < highest and block.ref.number == number
        if not fits or (number == self._last_of_epoch_below() and block.ref.l1_origin.number != highest - 1):
            raise ResetError(f"block {block.ref} does not fit block {self.above.ref} above it")
        self.reads += 1
        self._take(block)

    def _take(self, block: L2BlockInfo) -> None:
        ref = block.ref
        if self.steps_by_epoch:
            self._walk_from(block)
        elif ref.l1_origin.number > self.origin:
            self.above = block
        elif ref.number < self._last_of_epoch_below() or self.above.ref.l1_origin.number != self.origin + 1:
            self.below = (ref.number, ref.l1_origin.number)
        else:
            self._take_end(block)

    def _take_end(self, block: L2BlockInfo) -> None:
        """With the timeout of the block at which the walk would end, it may go on, or end above it."""
        if self._depth_at(block) < self.depth:
            self.steps_by_epoch = True
            self._walk_from(self.safe)
        else:
            self._walk_from(block)

    def _walk_from(self, block: L2BlockInfo) -> None:
        """The walk has reached this block; it ends there, or is expected to end `depth` below the safe head."""
        genesis, safe_origin = self.rollup.genesis, self.safe.ref.l1_origin.number
        self.above, self.below = block, (genesis.l2.number, genesis.l1.number)
        self.depth = self._depth_at(block)
        self.origin = max(safe_origin - self.depth, genesis.l1.number)
        if self._is_genesis_epoch(block) or block.ref.l1_origin.number + self.depth <= safe_origin:
            self.found = block

    def _depth_at(self, block: L2BlockInfo) -> int:
        return max(self.schedule.l1(block.origin_time).channel_timeout, self.look_back)

    def _is_genesis_epoch(self, block: L2BlockInfo) -> bool:
        genesis = self.rollup.genesis
        return block.ref.number <= genesis.l2.number or block.ref.l1_origin.number <= genesis.l1.number

    def _last_of_epoch_below(self) -> int:
        return self.above.ref.number - self.above.ref.sequence_number - 1

    def _guess(self) -> int:
        """A block between `below` and `above`: where the epoch above the end is by their distance, every third time in
        the middle; the last one of the end once the epoch above it is known."""
        last = self._last_of_epoch_below()
        above, (number, origin) = self.above.ref, self.below
        if self.steps_by_epoch or above.l1_origin.number <= self.origin + 1:
            return last
        if self.reads % 3 == 2:
            return max(number + 1, (number + last) // 2)
        epochs, blocks = above.l1_origin.number - origin, above.number - number
        guess = number + (2 * (self.origin + 1 - origin) + 1) * blocks // (2 * epochs)
        return min(max(guess, number + 1), last)
