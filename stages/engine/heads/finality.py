"""Which L2 block is final: the highest one that was derived from finalized L1 blocks [FIN1 to FIN8]."""

from math import inf

import msgspec

from rollup_node.stages.engine.calls.calls import GetL1BlockRef
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.errors import ResetError
from rollup_node.stages.protocol.types import L1BlockRef, L2BlockRef

LOOKBACK = 4 * 32 + 1
"""Four epochs of 32 slots and one block [FIN2]."""
DELAY = 64


class DerivedFrom(msgspec.Struct, frozen=True):
    """The last L2 block that became safe with the data up to an L1 block."""

    l1: L1BlockRef
    l2: L2BlockRef


class Finality:
    """Follows L1's finalized head.

    `safe` holds what became safe from which L1 block, in ascending order; `checked` are the L1 blocks that were found
    canonical since L1's finalized head moved. With Alt-DA only what was derived from L1 blocks up to `settled_l1` can
    be final [ADA11]; it is infinite without.

    `lookback` and `delay` in L1 blocks; None for the defaults."""

    def __init__(self, rollup: RollupConfig, lookback: int | None = None, delay: int | None = None) -> None:
        self.lookback = lookback or _default_lookback(rollup)
        self.delay = DELAY if delay is None else delay
        self.safe: list[DerivedFrom] = []
        self.finalized_l1: L1BlockRef | None = None
        self._unsettled: float = inf if rollup.alt_da is None else -1
        self.settled_l1 = self._unsettled
        self.due = False
        self.tried_at: int | None = None
        self.checked: tuple[L1BlockRef, ...] = ()

    def reset(self) -> None:
        """Drop what was derived, for a new start [FIN8]; L1's finalized head stays."""
        self.safe.clear()
        self.checked = ()
        self.due = False
        self.tried_at = None

    def note_safe(self, block: L2BlockRef, derived_from: L1BlockRef) -> None:
        """Note that a block became safe from an L1 block; one from a lower L1 block than before is ignored [FIN1]."""
        entry = DerivedFrom(derived_from, block)
        if self.safe and self.safe[-1].l1 == derived_from:
            self.safe[-1] = entry
            return
        if self.safe and self.safe[-1].l1.number >= derived_from.number:
            return
        self.safe.append(entry)
        del self.safe[: -self.lookback]

    def note_finalized_l1(self, head: L1BlockRef | None) -> bool:
        """Note L1's finalized head; False if it is lower than before [FIN6]; None drops a disproved one [FIN9]."""
        if head is None:
            self.finalized_l1, self.due, self.checked = None, False, ()
            self.settled_l1 = self._unsettled
            return True
        if self.finalized_l1 is not None and head.number < self.finalized_l1.number:
            return False
        if head != self.finalized_l1:
            self.finalized_l1, self.due, self.checked = head, True, ()
        return True

    def note_settled_l1(self, number: int | None) -> None:
        """Challenges are settled up to this block of the finalized L1 chain; None if that is not known [ADA11]."""
        if number is not None and number > self.settled_l1:
            self.settled_l1, self.due = number, True

    def note_idle(self, current_l1: L1BlockRef) -> None:
        """Note that derivation is idle at an L1 block: finality is due, at most once in `delay` blocks [FIN4]."""
        if self.finalized_l1 is None:
            return
        if self.tried_at is None or current_l1.number >= self.tried_at + self.delay:
            self.tried_at, self.due = current_l1.number, True

    def next(self, finalized: L2BlockRef) -> GetL1BlockRef | L2BlockRef | None:
        """Return two canonical L1 blocks to compare, one after the other, then the block that is final [FIN3]."""
        candidate = self._candidate() if self.due else None
        if candidate is None or self.finalized_l1 is None or candidate.l2.number <= finalized.number:
            return None
        for ref in (self.finalized_l1, candidate.l1):
            if ref not in self.checked:
                return GetL1BlockRef(ref.number, fresh=not self.checked)
        return candidate.l2

    def add_canonical(self, number: int, block: L1BlockRef | None) -> None:
        """Take the canonical L1 block of a number. Raises ResetError when L2 was derived from another one [FIN5]."""
        candidate = self._candidate()
        if candidate is None or self.finalized_l1 is None or block is None or block.number != number:
            return
        for ref, what in ((self.finalized_l1, "finalized L1 block"), (candidate.l1, "block derived from")):
            if ref.number == number and ref.hash != block.hash:
                if ref == self.finalized_l1:
                    # It must not outlive its disproof, or every start would end here [FIN9].
                    self.note_finalized_l1(None)
                raise ResetError(f"the {what} {ref} is not canonical: L1 has {block}")
            if ref.number == number:
                self.checked = (*self.checked, ref)

    def done(self) -> None:
        """Note that the block that was due is finalized."""
        self.due = False

    def _candidate(self) -> DerivedFrom | None:
        limit = -1 if self.finalized_l1 is None else min(self.finalized_l1.number, self.settled_l1)
        return next((entry for entry in reversed(self.safe) if entry.l1.number <= limit), None)


def _default_lookback(rollup: RollupConfig) -> int:
    if rollup.alt_da is None:
        return LOOKBACK
    return max(LOOKBACK, rollup.alt_da.challenge_window + rollup.alt_da.resolve_window + 1)
