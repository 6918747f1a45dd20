"""Entries of the safe head database, and how a new safe head or a reset changes them [SDB2, SDB7, SDB8]."""

import msgspec

from rollup_node.stages.protocol.types import BlockId, L2BlockRef


class SafeHeadEntry(msgspec.Struct, frozen=True):
    """`safe_head` is the last L2 block that became safe while `l1_block` was derived."""

    l1_block: BlockId
    safe_head: BlockId


class RecordSafeHead(msgspec.Struct, frozen=True):
    """A block became safe while this L1 block was derived."""

    entry: SafeHeadEntry


class ResetSafeHeads(msgspec.Struct, frozen=True):
    """Derivation starts over at the safe head `safe`; `l1_genesis` is L1 block 0 where that is the L2 genesis."""

    safe: L2BlockRef
    l1_genesis: BlockId | None


class KeepSafeHeads(msgspec.Struct, frozen=True):
    """Derivation resumes at the safe head of the entry `last`: those above it go; all of them without one [SDB9]."""

    last: SafeHeadEntry | None


SafeHeadWrite = RecordSafeHead | ResetSafeHeads | KeepSafeHeads


class FindSafeHeads(msgspec.Struct, frozen=True):
    """Reads the entries at which derivation may resume after EL sync to an L2 block near this number [SDB9]."""

    number: int


class FoundSafeHeads(msgspec.Struct, frozen=True):
    """`last` is the last entry, `first_from` the first whose safe head has at least the number asked for."""

    last: SafeHeadEntry | None
    first_from: SafeHeadEntry | None


class SafeHeadsWritten(msgspec.Struct, frozen=True):
    """The answer to a write: it is on disk."""


class EntriesChange(msgspec.Struct, frozen=True):
    """A change of the entries, made as one: those from L1 number `delete_from` on are deleted, then `put` are
    written."""

    delete_from: int
    put: tuple[SafeHeadEntry, ...]


def record(entry: SafeHeadEntry) -> EntriesChange:
    """The change by a new safe head: it takes the place of an entry for the same L1 block, and entries of higher L1
    blocks, which are of another chain, go [SDB2, SDB11]."""
    return EntriesChange(entry.l1_block.number, (entry,))


def keep(write: KeepSafeHeads) -> EntriesChange:
    """The change by an EL sync [SDB9]."""
    return EntriesChange(0 if write.last is None else write.last.l1_block.number + 1, ())


def reset(write: ResetSafeHeads, first: SafeHeadEntry | None, has_earlier: bool) -> EntriesChange:
    """The change by a reset. `first` is the first entry at or above the safe head's L1 origin that has an L2 number of
    at least the safe head's; `has_earlier`: there is an entry before it. Without `first` the record has a gap below the
    safe head, and all entries go [SDB7, SDB8]."""
    put: list[SafeHeadEntry] = []
    if first is not None and has_earlier:
        put.append(SafeHeadEntry(first.l1_block, write.safe.id))
    if write.l1_genesis is not None:
        put.append(SafeHeadEntry(write.l1_genesis, write.safe.id))
    return EntriesChange(0 if first is None else first.l1_block.number, tuple(put))
