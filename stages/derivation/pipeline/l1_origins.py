"""The window of L1 blocks that batches are judged by: from the current epoch to the block being read
(derivation-rules 17)."""

import msgspec

from rollup_node.stages.derivation.codec.batches import SingularBatch
from rollup_node.stages.derivation.reasons.reasons import Reason, Why
from rollup_node.stages.protocol.types import U64_MASK, L1Block, L1BlockRef, L2BlockRef


class Epochs:
    """Consecutive L1 blocks with what attributes need of them; the first is the current epoch."""

    def __init__(self, base: L1Block) -> None:
        self.blocks: list[L1Block] = [_without_inbox(base)]
        self._newest = base.ref

    def __len__(self) -> int:
        return len(self.blocks)

    @property
    def first(self) -> L1BlockRef:
        """The current epoch."""
        return self.blocks[0].header.ref

    @property
    def first_number(self) -> int:
        return self.blocks[0].header.number

    def ref(self, number: int) -> L1BlockRef | None:
        """The block of that number, if it is in the window."""
        block = self.block(number)
        return None if block is None else block.header.ref

    def block(self, number: int) -> L1Block | None:
        """As `ref`, with the logs."""
        blocks = self.blocks
        index = number - blocks[0].header.number if blocks else 0
        return blocks[index] if 0 <= index < len(blocks) else None

    def observe(self, origin: L1Block, parent: L2BlockRef) -> bool:
        """Takes note of the block being read, and forgets epochs before the parent's; whether the block being read lies
        behind the parent's origin (E2, E3)."""
        epoch = parent.l1_origin.number
        behind = origin.header.number < epoch
        if origin.header.hash != self._newest.hash:
            self._newest = origin.ref
            if behind:
                self.blocks.clear()
            else:
                self.blocks.append(_without_inbox(origin))
        if self.blocks and epoch > self.first_number and self.block(epoch) is not None:
            del self.blocks[: epoch - self.first_number]
        return behind

    def mismatch(self, parent: L2BlockRef) -> Reason | None:
        """Why nothing can be derived on this parent (E6)."""
        first = self.first
        origin = parent.l1_origin
        if (origin.number == first.number and origin.hash == first.hash) or origin.number == first.number - 1:
            return None
        return Why.EPOCH_MISMATCH(parent_origin=str(origin), first=str(first))

    def empty_batch(
        self, parent: L2BlockRef, origin: L1BlockRef, out_of_data: bool, window: int, block_time: int
    ) -> SingularBatch | None:
        """The empty block that must follow once the sequencing window of the current epoch has run out. If the next
        epoch must be judged first, the current one is given up and the answer is None (E7)."""
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


def _without_inbox(block: L1Block) -> L1Block:
    return msgspec.structs.replace(block, inbox=())
