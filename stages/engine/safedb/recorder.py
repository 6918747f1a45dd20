"""What is due to be written to the safe head database. While something is, derivation gets no answer, and no L2 block
is finalized: a start search goes below a safe head that is not final, so the next life of a process that is killed now
derives the block once more, and records it [SDB13]."""

from collections import deque

from rollup_node.stages.engine.safedb.entries import RecordSafeHead, ResetSafeHeads, SafeHeadEntry, SafeHeadWrite
from rollup_node.stages.protocol.types import BlockId, L1BlockRef, L2BlockRef


class SafeHeadRecorder:
    """Writes in their order, one at a time. Nothing is ever due unless the database is `enabled` [SDB1]. `last_l1` is
    the number of the L1 block of the last safe head since a reset, whether or not it is recorded."""

    def __init__(self, enabled: bool, supervised: bool = False) -> None:
        self.enabled, self._supervised = enabled, supervised
        self.last_l1: int | None = None
        self._due: deque[SafeHeadWrite] = deque()

    @property
    def pending(self) -> bool:
        """Whether a write is not on disk yet."""
        return bool(self._due)

    def next(self) -> SafeHeadWrite | None:
        """The write that is due; the same until it is done."""
        return self._due[0] if self._due else None

    def note_safe(self, safe: L2BlockRef, derived_from: L1BlockRef) -> None:
        """A block became safe while this L1 block was derived [SDB2]."""
        self.last_l1 = derived_from.number
        if self.enabled:
            self._due.append(RecordSafeHead(SafeHeadEntry(derived_from.id, safe.id)))

    def note_reset(self, safe: L2BlockRef, l1_genesis: BlockId | None) -> None:
        """Derivation starts over at a safe head, after a search for it [SDB7, SDB8, SDB15]."""
        if self.enabled:
            self._due.append(ResetSafeHeads(safe, l1_genesis, self._supervised))

    def done(self) -> None:
        """The write that was due is on disk."""
        self._due.popleft()

    def clear(self) -> None:
        """Derivation is reset: what is due is part of what it derives again."""
        self._due.clear()
        self.last_l1 = None
