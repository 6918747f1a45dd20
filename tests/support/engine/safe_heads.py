"""Entries of the safe head database by number, and an independent model of it."""

from bisect import bisect_left

from rollup_node.stages.engine.calls.safe_head_entries import (
    FindSafeHeads,
    FoundSafeHeads,
    KeepSafeHeads,
    ResetSafeHeads,
    SafeHeadEntry,
    SafeHeadWrite,
)
from rollup_node.stages.protocol.types import BlockId, L2BlockRef


def block(number: int, branch: int = 0) -> BlockId:
    """Return the block of a number; branches have different hashes."""
    return BlockId(number, bytes([branch]) * 24 + number.to_bytes(8, "big"))


def entry(l1: int, l2: int, branch: int = 0) -> SafeHeadEntry:
    """Return an entry by its numbers."""
    return SafeHeadEntry(block(l1, branch), block(l2, branch))


def l2_ref(number: int, origin: int, branch: int = 0) -> L2BlockRef:
    """Return a reference of an L2 block with an L1 origin."""
    result = block(number, branch)
    return L2BlockRef(result.hash, number, bytes(32), 0, block(origin, branch), 0)


class SafeHeadModel:
    """The database as a list in the order of L1 numbers, walked entry by entry."""

    def __init__(self) -> None:
        self.entries: list[SafeHeadEntry] = []

    def write(self, write: SafeHeadWrite) -> None:
        """Make a change."""
        if isinstance(write, SafeHeadEntry):
            while self.entries and self.entries[-1].l1_block.number >= write.l1_block.number:
                self.entries.pop()
            self.entries.append(write)
            return
        if isinstance(write, KeepSafeHeads):
            while self.entries and self.entries[-1] != write.last:
                self.entries.pop()
            return
        self._reset(write)
        if write.l1_genesis is not None:
            at_zero = SafeHeadEntry(write.l1_genesis, write.safe.id)
            self.entries = [at_zero, *(entry for entry in self.entries if entry.l1_block.number > 0)]

    def _reset(self, write: ResetSafeHeads) -> None:
        for position, item in enumerate(self.entries):
            if item.l1_block.number < write.safe.l1_origin.number or item.safe_head.number < write.safe.number:
                continue
            is_known = position > 0 or (item.safe_head == write.safe.id and not write.supervised)
            del self.entries[position:]
            if is_known:
                self.entries.append(SafeHeadEntry(item.l1_block, write.safe.id))
            return
        if not write.supervised:
            self.entries = []  # a start above the record: what became safe in between is not known

    def find(self, wanted: FindSafeHeads) -> FoundSafeHeads:
        """Return the entries at which derivation may resume."""
        entries = [item for item in self.entries if wanted.below is None or item.l1_block.number < wanted.below]
        return FoundSafeHeads(entries[-1] if entries else None, self.l1_of(wanted.number))

    def at_l1(self, number: int) -> SafeHeadEntry | None:
        """Return the last entry at or below an L1 block."""
        position = bisect_left(self.entries, number + 1, key=lambda item: item.l1_block.number)
        return self.entries[position - 1] if position else None

    def l1_of(self, number: int) -> SafeHeadEntry | None:
        """Return the first entry whose safe head has reached an L2 block."""
        return next((entry for entry in self.entries if entry.safe_head.number >= number), None)
