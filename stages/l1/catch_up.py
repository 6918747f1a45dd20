"""The L1 blocks that were used before their link to a proven head was known [LCP16, LCP17]."""

from collections.abc import Sequence

import msgspec

from rollup_node.stages.l1.proven_chain import REACH
from rollup_node.stages.protocol.types import Hash, L1BlockRef


class Unproven(msgspec.Struct, frozen=True):
    """The blocks from `first` on were used unproven, until now up to `last` with its hash."""

    first: int
    last: int
    hash: Hash


class CatchUp:
    """What derivation was sent of a chain that is not linked to a proven head yet.

    What was derived by an unproven block stays over resets and restarts, so nothing counts as proven until the blocks
    from the first unproven to a proven one are a chain. `doubt` says why they are none: then it takes a reset to a
    block that links to those before. `before` is what a former process recorded."""

    def __init__(self, before: Unproven | None = None) -> None:
        self.unproven = before
        self.doubt: str | None = None
        self._recent: dict[int, Hash] = {} if before is None else {before.last: before.hash}

    def sent(self, ref: L1BlockRef, is_proven: bool) -> bool:
        """Take a block that derivation is sent; False if it does not link to those it was sent before."""
        number, unproven = ref.number, self.unproven
        if unproven is None or number <= unproven.first:
            self._recent, self.doubt, self.unproven = {}, None, None
            if not is_proven:
                self._record(ref, number)
            return True
        before, same = self._recent.get(number - 1), self._recent.get(number)
        if ref.hash == same or ref.parent_hash == before:
            self.doubt = None
            if is_proven:
                self._recent, self.unproven = {}, None
            elif ref.hash != same:
                self._record(ref, unproven.first)
            return True
        if before is None and same is None:
            return True
        if number <= unproven.last:
            self.doubt = f"L1 blocks {unproven.first} to {number - 1} are not on the chain of {ref}"
        return False

    def gap_before(self, number: int) -> range:
        """Return the blocks between the last recorded one and another: a former process sent them, and did not say."""
        unproven = self.unproven
        if unproven is None or self.doubt is not None or number - 1 in self._recent:
            return range(0)
        return range(unproven.last + 1, number)

    def fill(self, refs: Sequence[L1BlockRef]) -> None:
        """Take the first blocks of a gap, as an endpoint has them; if they do not link, there is a doubt."""
        for ref in refs:
            if not self.sent(ref, False):
                self.doubt = f"L1 blocks up to {ref.number - 1} are not on the chain of {ref}"
                return

    def _record(self, ref: L1BlockRef, first: int) -> None:
        if self.unproven is not None and self.unproven.last >= ref.number:
            self._recent = {number: value for number, value in self._recent.items() if number < ref.number}
        self._recent[ref.number] = ref.hash
        self._recent.pop(ref.number - REACH, None)
        self.unproven = Unproven(first, ref.number, ref.hash)
