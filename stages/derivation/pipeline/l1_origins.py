"""The L1 window that batches are checked against: consecutive L1 blocks up to the one being read."""

from copy import copy

import msgspec

from rollup_node.stages.derivation.codec.batches import SingularBatch
from rollup_node.stages.derivation.pipeline.outputs import PipelineEvents
from rollup_node.stages.derivation.reasons.batches import SafeOriginMismatch
from rollup_node.stages.derivation.reasons.l1 import ConfigUpdateMalformed, L1ParentMismatch
from rollup_node.stages.derivation.reasons.reason import Reason
from rollup_node.stages.messages.derivation import DropEffect
from rollup_node.stages.protocol.config import SystemConfig
from rollup_node.stages.protocol.forks.rules import L1Rules
from rollup_node.stages.protocol.forks.schedule import ForkSchedule
from rollup_node.stages.protocol.system_config import apply_updates
from rollup_node.stages.protocol.types import U64_MASK, Address, L1Block, L1BlockRef, L2BlockRef


def without_inbox(block: L1Block) -> L1Block:
    """Return the block with header, deposits and config updates alone, so that its batcher data can be freed."""
    return msgspec.structs.replace(block, inbox=())


class L1OriginWindow:
    """Consecutive L1 blocks; the first is the current epoch. Begins with the base of the reset [E1, E5]."""

    def __init__(self, base: L1Block) -> None:
        self.blocks: list[L1Block] = [base]
        self._newest = base.ref

    def __len__(self) -> int:
        return len(self.blocks)

    def copy(self) -> "L1OriginWindow":
        """Return the same window, which moves by itself."""
        result = copy(self)
        result.blocks = list(self.blocks)
        return result

    @property
    def first(self) -> L1BlockRef:
        """The current epoch."""
        return self.blocks[0].header.ref

    @property
    def first_number(self) -> int:
        """The number of the current epoch."""
        return self.blocks[0].header.number

    def ref(self, number: int) -> L1BlockRef | None:
        block = self.block(number)
        return None if block is None else block.header.ref

    def block(self, number: int) -> L1Block | None:
        """As `ref`, with deposits and config updates."""
        blocks = self.blocks
        index = number - blocks[0].header.number if blocks else 0
        return blocks[index] if 0 <= index < len(blocks) else None

    def advance_origin(self, origin: L1Block, parent: L2BlockRef) -> bool:
        """Append the block being read if it is new, and remove the epochs before the parent's.

        Whether the block being read is behind the parent's origin, in which case a new one clears the window [E2,
        E3]."""
        epoch = parent.l1_origin.number
        behind = origin.header.number < epoch
        if origin.header.hash != self._newest.hash:
            self._newest = origin.ref
            if behind:
                self.blocks.clear()
            else:
                self.blocks.append(origin)
        if self.blocks and epoch > self.first_number and self.block(epoch) is not None:
            del self.blocks[: epoch - self.first_number]
        return behind

    def mismatch(self, parent: L2BlockRef) -> Reason | None:
        """Return why nothing can be derived on this parent: its origin is no current or previous epoch [E6]."""
        first = self.first
        origin = parent.l1_origin
        if (origin.number == first.number and origin.hash == first.hash) or origin.number == first.number - 1:
            return None
        return SafeOriginMismatch(str(origin), str(first))

    def empty_batch(
        self, parent: L2BlockRef, origin: L1BlockRef, out_of_data: bool, window: int, block_time: int
    ) -> SingularBatch | None:
        """Return the empty batch that is forced once the sequencing window of the current epoch has expired [E7].

        The window is in L1 blocks. When the next epoch has begun by then, the current one is removed instead: None."""
        epoch = self.first
        expiry = (epoch.number + window) & U64_MASK
        forced = expiry < origin.number or (expiry == origin.number and out_of_data)
        if not forced or len(self.blocks) < 2:
            return None
        timestamp = parent.timestamp + block_time
        if timestamp < self.blocks[1].header.timestamp or epoch.number == parent.l1_origin.number + 1:
            return SingularBatch(parent.hash, epoch.number, epoch.hash, timestamp, ())
        del self.blocks[0]
        return None


class L1Traversal:
    """Walks block by block from `base`, whose updates `config` already contains.

    This config is only for the batcher filter; attributes use the one of the parent L2 block [RS6]."""

    def __init__(self, schedule: ForkSchedule, events: PipelineEvents, base: L1BlockRef, config: SystemConfig) -> None:
        self.origin = base
        self.rules: L1Rules = schedule.l1(base.timestamp)
        self._schedule, self._events, self.config = schedule, events, config
        events.origin = self.origin

    @property
    def batcher(self) -> Address:
        """The account whose transactions count in the block being read [BF4, BF6]."""
        return self.config.batcher

    def rejection(self, block: L1Block) -> Reason | None:
        """Why the block is not the next one of the chain: its parent is another than the block being read [T3]."""
        if block.header.parent_hash == self.origin.hash:
            return None
        return L1ParentMismatch(block.header.number, block.header.parent_hash, self.origin.hash)

    def advance(self, block: L1Block) -> None:
        """Move to the next block and applies its config updates, before anything in it is read [T5]."""
        self.origin = self._events.origin = block.ref
        self.rules = self._schedule.l1(block.header.timestamp)
        if block.config_updates:
            self.config, skipped = apply_updates(self.config, block.config_updates, self.rules)
            for update in skipped:
                reason = ConfigUpdateMalformed(update.log_index, update.text)
                self._events.drop(DropEffect.IGNORED, reason)
