"""The four heads of the L2 chain and the moves between them that are allowed."""

import msgspec

from rollup_node.stages.protocol.errors import CriticalError
from rollup_node.stages.protocol.types import Hash, L2BlockRef


class Forkchoice(msgspec.Struct, frozen=True):
    """The forkchoice state of a forkchoice update [ENG10]."""

    head: Hash
    safe: Hash
    finalized: Hash


class Heads(msgspec.Struct, frozen=True):
    """All on one chain: finalized <= safe <= pending safe <= unsafe. `pending_safe` is ahead of `safe` in the middle of
    a span batch. Values: a move returns new heads.

    `safe` is the local safe head. With a supervisor `cross_safe` is behind it and is what the engine knows as safe, and
    `cross_unsafe` is behind the unsafe head [RPC39]; None is the same head as the local one."""

    unsafe: L2BlockRef
    pending_safe: L2BlockRef
    safe: L2BlockRef
    finalized: L2BlockRef
    cross_safe: L2BlockRef | None = None
    cross_unsafe: L2BlockRef | None = None

    @property
    def verified_safe(self) -> L2BlockRef:
        """The head that is safe across chains."""
        return self.cross_safe or self.safe

    def forkchoice(self) -> Forkchoice:
        """The forkchoice state that has these heads."""
        return Forkchoice(self.unsafe.hash, self.verified_safe.hash, self.finalized.hash)

    def with_unsafe(self, ref: L2BlockRef) -> "Heads":
        """The heads with another tip. Raises CriticalError when it is below the finalized block [ENG36]."""
        if ref.number < self.finalized.number:
            raise CriticalError(f"the unsafe head {ref} would be below the finalized block {self.finalized}")
        return msgspec.structs.replace(self, unsafe=ref)

    def with_derived(self, ref: L2BlockRef, concluding: bool) -> "Heads":
        """The heads after a derived block of this chain, which is safe when it concludes its batch."""
        moved = msgspec.structs.replace(self, pending_safe=ref, safe=ref if concluding else self.safe)
        return moved if ref.number <= self.unsafe.number else moved.with_unsafe(ref)

    def without_pending(self) -> "Heads":
        """The heads after the rest of a span batch was dropped: its first blocks do not become safe either [ENG34]."""
        return msgspec.structs.replace(self, pending_safe=self.safe)

    def with_finalized(self, ref: L2BlockRef) -> "Heads":
        """The heads with this block finalized; unchanged when it is not above the finalized block, or above the safe
        head [FIN7]."""
        if not self.finalized.number < ref.number <= self.verified_safe.number:
            return self
        return msgspec.structs.replace(self, finalized=ref)
