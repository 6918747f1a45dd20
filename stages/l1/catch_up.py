"""The L1 blocks that were used before their link to a proven head was known [LCP16, LCP17]."""

from collections.abc import Sequence

import msgspec

from rollup_node.stages.l1.proven_chain import BATCH, REACH
from rollup_node.stages.protocol.types import Hash, L1BlockRef

MARKS = 256
"""So many of the last REACH blocks are recorded at most."""


class Unproven(msgspec.Struct, frozen=True):
    """The blocks from `first` on were used unproven, until now up to `last` with its hash; `marks` are some before."""

    first: int
    last: int
    hash: Hash
    marks: tuple[tuple[int, Hash], ...] = ()


class CatchUp:
    """What derivation was sent of a chain that is not linked to a proven head yet.

    What was derived by an unproven block stays over resets and restarts, so nothing counts as proven until the blocks
    from the first unproven to a proven one are a chain. `doubt` says why they are none: then it takes a reset to a
    block that links to those before. `before` is what a former process recorded: whether derivation has gone on from
    there is known when it has accepted a block that links to a recorded one."""

    def __init__(self, before: Unproven | None = None) -> None:
        self.unproven = before
        self.doubt: str | None = None
        self._recent: dict[int, Hash] = {} if before is None else {**dict(before.marks), before.last: before.hash}
        self._is_known = before is None
        """Whether derivation's blocks are those in `_recent`."""
        self._candidate: L1BlockRef | None = None
        """The block by which they are, if derivation accepts it."""
        self._void: int | None = None
        """Blocks above this one say nothing: derivation will not accept it, or it does not link to any recorded."""
        self._below: dict[int, Hash] = {}

    def record(self) -> Unproven | None:
        """Return what is unproven, with some of the blocks before the last, so that a later process can link to it."""
        every = max(1, REACH // MARKS)
        lowest = min(self._recent, default=0)
        marks = tuple(item for item in sorted(self._recent.items()) if item[0] % every == 0 or item[0] == lowest)
        return None if self.unproven is None else msgspec.structs.replace(self.unproven, marks=marks)

    def sent(self, ref: L1BlockRef, is_proven: bool) -> bool:
        """Take a block that derivation is sent; False if it does not link to those it was sent before."""
        number, unproven = ref.number, self.unproven
        if unproven is None or number <= unproven.first:
            self._recent, self.doubt, self.unproven = {}, None, None
            self._is_known, self._candidate, self._void = True, None, None
            if not is_proven:
                self._record(ref, number)
            return True
        if self._void is not None and number > self._void:
            return True
        before = self._recent.get(number - 1, self._below.get(number - 1) if self._is_filled else None)
        same = self._recent.get(number)
        if ref.hash == same or ref.parent_hash == before:
            if not self._is_known:
                self._candidate = ref
                return True
            self.doubt = None
            if is_proven:
                self._recent, self.unproven = {}, None
            elif ref.hash != same:
                self._record(ref, unproven.first)
            return True
        if not self._is_known and number <= min(self._recent):
            return True
        if not self._is_known or number <= unproven.last:
            self.doubt = f"L1 blocks {unproven.first} to {number - 1} are not on the chain of {ref}"
        self._void = number
        return not self._is_known

    def awaits(self, number: int) -> bool:
        """Whether derivation must not be sent a block yet: it has to accept another one before."""
        return self._candidate is not None and number > self._candidate.number

    def requested(self, first: int, taken: Hash | None) -> None:
        """Take a request of derivation, and the block that it has taken last."""
        if self._void is not None and first <= self._void:
            self._void = None
        unproven, candidate = self.unproven, self._candidate
        if unproven is None:
            return
        is_taken = candidate is not None and taken == candidate.hash
        if candidate is not None and (is_taken or first < candidate.number):
            self._candidate = None
            if is_taken:
                self._recent = {item: value for item, value in self._recent.items() if item < candidate.number}
                self._recent |= self._below if self._is_filled else {}
                self._record(candidate, unproven.first)
                self._is_known, self.doubt = True, None
            self._below = {}
        elif self._is_known and candidate is None and first > unproven.first and first - 1 not in self._recent:
            self._is_known = False

    @property
    def _is_filled(self) -> bool:
        """Whether the links below the next block lead to a recorded one."""
        low = min(self._below, default=-1)
        return low >= 0 and self._recent.get(low) == self._below[low]

    def gap_below(self, ref: L1BlockRef) -> range:
        """Return the blocks whose links are wanted before derivation is sent a block: down to the next recorded one.

        A former process sent them and did not record them, or derivation was reset to between two recorded ones."""
        number, recent = ref.number, self._recent
        if self._is_known or self._void is not None or self.unproven is None or number <= min(recent):
            return range(0)
        if number in recent or number - 1 in recent:
            return range(0)
        if self._below.get(number - 1) != ref.parent_hash or max(self._below) != number - 1:
            self._below = {number - 1: ref.parent_hash}
        low = min(self._below)
        return range(0) if self._is_filled else range(max(min(recent) + 1, low - BATCH + 1), low + 1)

    def fill(self, refs: Sequence[L1BlockRef]) -> bool:
        """Take the blocks of the gap, as an endpoint has them; False if they are not the ones below that block."""
        for ref in reversed(refs):
            low = min(self._below)
            if ref.number != low or ref.hash != self._below[low]:
                return False
            self._below[low - 1] = ref.parent_hash
            if self._is_filled:
                return True
        return True

    def _record(self, ref: L1BlockRef, first: int) -> None:
        if self.unproven is not None and self.unproven.last >= ref.number:
            self._recent = {number: value for number, value in self._recent.items() if number < ref.number}
        self._recent[ref.number] = ref.hash
        self._recent.pop(ref.number - REACH, None)
        self.unproven = Unproven(first, ref.number, ref.hash)
