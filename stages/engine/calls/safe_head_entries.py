"""Entries of the safe head database, and how a new safe head or a reset changes them [SDB2, SDB7, SDB8].

While something is due to be written, derivation gets no answer, and no L2 block is finalized: a start search goes below
a safe head that is not final, so the next life of a process that is killed now derives the block once more, and records
it [SDB13].
"""

from collections import deque

import msgspec

from rollup_node.stages.protocol.types import BlockId, L1BlockRef, L2BlockRef


class SafeHeadEntry(msgspec.Struct, frozen=True):
    """`safe_head` is the last L2 block that became safe while `l1_block` was derived; as a write, record it."""

    l1_block: BlockId
    safe_head: BlockId


class ResetSafeHeads(msgspec.Struct, frozen=True):
    """Derivation starts over at the safe head `safe`; `l1_genesis` is L1 block 0 where that is the L2 genesis.

    An interop supervisor may have gone on with another node: nothing is deleted then because of a gap [SDB15]."""

    safe: L2BlockRef
    l1_genesis: BlockId | None
    supervised: bool = False


class KeepSafeHeads(msgspec.Struct, frozen=True):
    """Derivation resumes at the safe head of the entry `last`: those above it go; all of them without one [SDB9]."""

    last: SafeHeadEntry | None


SafeHeadWrite = SafeHeadEntry | ResetSafeHeads | KeepSafeHeads
"""Answered by True once it is on disk."""


class FindSafeHeads(msgspec.Struct, frozen=True):
    """Reads the entries at which derivation may resume after EL sync to an L2 block near this number [SDB9].

    The last one is that below the L1 block of number `below`, if it is given."""

    number: int
    below: int | None = None


class FoundSafeHeads(msgspec.Struct, frozen=True):
    """`last` is the last entry, `first_from` the first whose safe head has at least the number asked for."""

    last: SafeHeadEntry | None
    first_from: SafeHeadEntry | None


class Gap(msgspec.Struct, frozen=True):
    """A gap: it is not known with which L1 blocks the L2 blocks from `first` to `last` became safe.

    So it is not known which was safe from L1 block `after` on, before L1 block `until`; None until there is an entry
    after the gap [SDB15]."""

    after: int
    until: int | None
    first: int
    last: int


class EntriesChange(msgspec.Struct, frozen=True):
    """A change of the entries, made as one: those from L1 number `delete_from` on are deleted, then `put` are written.

    The record reaches L2 number `end` then, and has the gap `gap` at its end."""

    delete_from: int
    put: tuple[SafeHeadEntry, ...]
    end: int
    gap: Gap | None = None


def record(entry: SafeHeadEntry) -> EntriesChange:
    """Return the change by a new safe head: entries of its L1 block and of higher ones go [SDB2, SDB11]."""
    return EntriesChange(entry.l1_block.number, (entry,), entry.safe_head.number)


def keep(write: KeepSafeHeads) -> EntriesChange:
    """Return the change by an EL sync [SDB9]."""
    if write.last is None:
        return EntriesChange(0, (), 0)
    return EntriesChange(write.last.l1_block.number + 1, (), write.last.safe_head.number)


def reset(write: ResetSafeHeads, first: SafeHeadEntry | None, earlier: SafeHeadEntry | None) -> EntriesChange:
    """Return the change by a reset.

    `first` is the first entry at or above the safe head's L1 origin that has an L2 number of at least the safe head's;
    `earlier` the one before it, the last one without `first`. An entry before, or one of that very block, shows with
    which L1 block it became safe. Without `first` the record has a gap below the safe head, and all entries go, unless
    there is an interop supervisor [SDB7, SDB8, SDB15]."""
    put: list[SafeHeadEntry] = []
    is_same = first is not None and first.safe_head == write.safe.id and not write.supervised
    if first is not None and (earlier is not None or is_same):
        put.append(SafeHeadEntry(first.l1_block, write.safe.id))
    if write.l1_genesis is not None:
        put.append(SafeHeadEntry(write.l1_genesis, write.safe.id))
    if first is not None:
        delete_from = first.l1_block.number
    else:
        delete_from = earlier.l1_block.number + 1 if write.supervised and earlier is not None else 0
    gap = _gap(write.safe, earlier) if write.supervised and not put else None
    return EntriesChange(delete_from, tuple(put), write.safe.number, gap)


def _gap(safe: L2BlockRef, earlier: SafeHeadEntry | None) -> Gap:
    """Return the gap below a safe head; without an entry before, the next one will show what is safe."""
    if earlier is None:
        return Gap(0, 0, 1, safe.number)
    return Gap(earlier.l1_block.number, None, earlier.safe_head.number + 1, safe.number)


class SafeHeadRecorder:
    """Writes in their order, one at a time.

    Nothing is ever due unless the database is `enabled` [SDB1]. `last_l1` is the number of the L1 block of the last
    safe head since a reset, whether or not it is recorded."""

    def __init__(self, enabled: bool, supervised: bool = False) -> None:
        self.enabled, self._supervised = enabled, supervised
        self.last_l1: int | None = None
        self._due: deque[SafeHeadWrite] = deque()
        self._recorded, self._begun = -1, False

    @property
    def pending(self) -> bool:
        """Whether a write is not on disk yet."""
        return bool(self._due)

    def next(self) -> SafeHeadWrite | None:
        """Return the write that is due, which begins; the same until it is done."""
        self._begun = self.pending
        return self._due[0] if self._due else None

    @property
    def is_record(self) -> bool:
        """Whether the next write is the entry of a safe head."""
        return self.pending and isinstance(self._due[0], SafeHeadEntry)

    def has(self, number: int) -> bool:
        """Return whether it is on disk with which L1 block an L2 block that is safe became so [SDB13]."""
        return not self._due or number <= self._recorded

    def note_safe(self, safe: L2BlockRef, derived_from: L1BlockRef) -> None:
        """Note that a block became safe while this L1 block was derived [SDB2]."""
        self.last_l1 = derived_from.number
        if not self.enabled:
            return
        # A write that has not begun is never made if another of its L1 block follows.
        last = self._due[-1] if len(self._due) > self._begun else None
        if isinstance(last, SafeHeadEntry) and last.l1_block == derived_from.id:
            self._due.pop()
        self._due.append(SafeHeadEntry(derived_from.id, safe.id))

    def note_reset(self, safe: L2BlockRef, l1_genesis: BlockId | None) -> None:
        """Note that derivation starts over at a safe head, after a search for it [SDB7, SDB8, SDB15]."""
        if self.enabled:
            self._due.append(ResetSafeHeads(safe, l1_genesis, self._supervised))

    def done(self) -> None:
        """Note that the write that was due is on disk."""
        write, self._begun = self._due.popleft(), False
        if isinstance(write, SafeHeadEntry):
            self._recorded = write.safe_head.number
        elif isinstance(write, ResetSafeHeads):
            self._recorded = write.safe.number

    def clear(self) -> None:
        """Note that derivation is reset: what is due is part of what it derives again."""
        self._due.clear()
        self.last_l1, self._recorded, self._begun = None, -1, False
