"""The four heads of the L2 chain, and which moves between them are allowed."""

import msgspec

from rollup_node.stages.protocol.errors import CriticalError
from rollup_node.stages.protocol.types import Hash, L2BlockRef


class Forkchoice(msgspec.Struct, frozen=True):
    """What the execution engine is told of the heads."""

    head: Hash
    safe: Hash
    finalized: Hash


class Heads(msgspec.Struct, frozen=True):
    """`pending_safe` runs ahead of `safe` in the middle of a span batch. A move gives new heads."""

    unsafe: L2BlockRef
    pending_safe: L2BlockRef
    safe: L2BlockRef
    finalized: L2BlockRef

    def forkchoice(self) -> Forkchoice:
        return Forkchoice(self.unsafe.hash, self.safe.hash, self.finalized.hash)

    def with_unsafe(self, ref: L2BlockRef) -> "Heads":
        """Another tip, which must not be below the finalized block (node-behaviour 11.4)."""
        if ref.number < self.finalized.number:
            raise CriticalError(f"the unsafe head {ref} would be below the finalized block {self.finalized}")
        return msgspec.structs.replace(self, unsafe=ref)

    def with_derived(self, ref: L2BlockRef, concluding: bool) -> "Heads":
        """A derived block of the present chain; it is safe once its batch has ended."""
        moved = msgspec.structs.replace(self, pending_safe=ref, safe=ref if concluding else self.safe)
        return moved if ref.number <= self.unsafe.number else moved.with_unsafe(ref)

    def without_pending(self) -> "Heads":
        """The rest of a batch was refused: its first blocks are not safe either."""
        return msgspec.structs.replace(self, pending_safe=self.safe)

    def with_finalized(self, ref: L2BlockRef) -> "Heads":
        """Finality goes forward only, and not beyond the safe head (node-behaviour 11.8); otherwise no move."""
        if not self.finalized.number < ref.number <= self.safe.number:
            return self
        return msgspec.structs.replace(self, finalized=ref)
