"""The L1 blocks below a proven head, by their links, and what a block is worth by them [LCP14, LCP15]."""

from collections.abc import Sequence
from enum import Enum, auto

from rollup_node.stages.protocol.types import Hash, L1BlockRef

REACH = 8192
"""So many blocks below the head, a day and more, are linked to it before any of them is used."""

BATCH = 128
"""References that one step downwards asks for."""


class Standing(Enum):
    """What a block is worth."""

    PROVEN = auto()
    """It is an ancestor of the proven head, or the head."""
    FORGED = auto()
    """Another block is, at its height."""
    WAITING = auto()
    """The links do not reach down to it yet."""
    FAR = auto()
    """It is more than REACH below the head: used unproven, until the links reach down to the blocks above it."""
    BEYOND = auto()
    """It is above the head, or there is none."""


class ProvenChain:
    """Hashes of consecutive blocks up to the proven head, of which the lowest is known as a parent alone."""

    def __init__(self) -> None:
        self.head: L1BlockRef | None = None
        self._hashes: dict[int, Hash] = {}
        self._low = 0
        self._before: dict[int, Hash] = {}

    def __len__(self) -> int:
        return len(self._hashes) + len(self._before)

    def advance(self, head: L1BlockRef) -> None:
        """Take a proven head. Without a link to the one before, steps downwards have to find it."""
        number = head.number
        if self._hashes.get(number - 1) == head.parent_hash:
            for item in [item for item in self._hashes if item > number]:
                del self._hashes[item]
        else:
            # Both cannot be kept together: they need not be of one branch.
            self._before = self._before or self._hashes
            self._hashes, self._low = {number - 1: head.parent_hash}, number - 1
        self._hashes[number] = head.hash
        self.head = head
        while self._low < number - REACH:
            del self._hashes[self._low]
            self._low += 1

    def missing(self, lowest: int) -> range:
        """Return the numbers of the next step down to a block, and to what was known before; empty if there is none."""
        if self.head is None:
            return range(0)
        goal = max(lowest, self.head.number - REACH, 0)
        if self._before:
            goal = min(max(self._before), self._low - 8)
        first = max(goal + 1, self._low - BATCH + 1, 0)
        return range(first, self._low + 1)

    def extend(self, refs: Sequence[L1BlockRef]) -> bool:
        """Take blocks in ascending order up to the lowest known hash; False if they do not link to it."""
        for ref in reversed(refs):
            if ref.number != self._low or ref.hash != self._hashes[self._low]:
                return False
            self._low -= 1
            self._hashes[self._low] = ref.parent_hash
            if self._join():
                return True
        return True

    def standing(self, number: int, block_hash: Hash) -> Standing:
        """Return what a block is worth."""
        if self.head is None or number > self.head.number:
            return Standing.BEYOND
        known = self._hashes.get(number)
        if known is not None:
            return Standing.PROVEN if known == block_hash else Standing.FORGED
        return Standing.WAITING if number >= self.head.number - REACH else Standing.FAR

    def _join(self) -> bool:
        """Take over what was known before once the links reach it; whether they do. Forget it once they are below."""
        if self._before and self._before.get(self._low) == self._hashes[self._low]:
            lower = {number: value for number, value in self._before.items() if number < self._low}
            self._hashes |= lower
            self._low = min(lower, default=self._low)
            self._before = {}
            return True
        if self._before and self._low <= min(self._before):
            self._before = {}
        return False
