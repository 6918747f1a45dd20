"""The L1 chain's head, safe and finalized block as polling shows them, with reorgs told from endpoints that lag
(node-behaviour 10.2)."""

from enum import Enum

from rollup_node.stages.protocol.types import L1BlockRef

RING_SIZE = 1000
PATIENCE = 3
"""So many times in a row an ancestor must be shown as head before the chain counts as rolled back to it."""


class HeadChange(Enum):
    """What a polled head means."""

    SAME = "same"
    ADVANCED = "advanced"
    REORGED = "reorged"
    BEHIND = "behind"
    BELOW_FINALIZED = "below finalized"


class Heads:
    """The three labels, None until known, and a ring of the last heads that link to each other. `undone` is how many
    blocks the last reorg put aside at least."""

    def __init__(self) -> None:
        self.head: L1BlockRef | None = None
        self.safe: L1BlockRef | None = None
        self.finalized: L1BlockRef | None = None
        self.undone = 0
        self._ring: dict[int, L1BlockRef] = {}
        self._times_behind = 0

    def at(self, number: int) -> L1BlockRef | None:
        """The block of that number on the chain of the last heads, as far as they were seen."""
        return self._ring.get(number)

    def saw_head(self, ref: L1BlockRef) -> HeadChange:
        """Takes a polled head. An ancestor of the head, or a block below the finalized one, is not taken at once:
        the endpoint lags, or is a proxy before several."""
        head = self.head
        if head is not None and ref.hash == head.hash:
            self._times_behind = 0
            return HeadChange.SAME
        if self.finalized is not None and ref.number < self.finalized.number:
            return HeadChange.BELOW_FINALIZED
        if head is not None and self._is_ancestor(ref):
            self._times_behind += 1
            if self._times_behind < PATIENCE:
                return HeadChange.BEHIND
        self._times_behind = 0
        change = self._judge(ref)
        if head is not None and change is HeadChange.REORGED:
            links = (parent := self._ring.get(ref.number - 1)) is not None and parent.hash == ref.parent_hash
            self.undone = max(1, head.number - ref.number + (1 if links or self._is_ancestor(ref) else 2))
        self._push(ref)
        self.head = ref
        return change

    def saw_safe(self, ref: L1BlockRef) -> bool:
        """Takes a polled safe block, which may go back in a reorg; whether it is another than before."""
        changed = self.safe is None or self.safe.hash != ref.hash
        self.safe = ref
        return changed

    def saw_finalized(self, ref: L1BlockRef) -> str | None:
        """Takes a polled finalized block; why not, when it contradicts the one before."""
        before = self.finalized
        if before is not None and ref.number < before.number:
            return f"finalized L1 block went back from {before} to {ref}"
        if before is not None and ref.number == before.number and ref.hash != before.hash:
            return f"finalized L1 block {before} became {ref}: another chain"
        self.finalized = ref
        return None

    def _is_ancestor(self, ref: L1BlockRef) -> bool:
        known = self._ring.get(ref.number)
        return known is not None and known.hash == ref.hash

    def _judge(self, ref: L1BlockRef) -> HeadChange:
        if self.head is None or ref.number > self.head.number + 1:
            return HeadChange.ADVANCED
        if ref.number == self.head.number + 1 and ref.parent_hash == self.head.hash:
            return HeadChange.ADVANCED
        return HeadChange.REORGED

    def _push(self, ref: L1BlockRef) -> None:
        """Keeps of the ring what the new head stands on."""
        parent = self._ring.get(ref.number - 1)
        if parent is None or parent.hash != ref.parent_hash:
            self._ring.clear()
        for number in [number for number in self._ring if number >= ref.number]:
            del self._ring[number]
        self._ring[ref.number] = ref
        self._ring.pop(ref.number - RING_SIZE, None)
