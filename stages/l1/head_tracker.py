"""The L1 head, safe and finalized block as polled; tells reorgs from lagging endpoints [LHD3, LHD6, LHD8]."""

from collections.abc import Callable
from enum import Enum
from typing import Generic, NamedTuple, TypeVar

from rollup_node.stages.protocol.types import L1BlockRef

MAX_RECENT = 1000
ROLLBACK_POLLS = 3
"""How many polls in a row must show what may be an ancestor as head before the chain counts as rolled back to it."""


class HeadChange(Enum):
    """The relation of a polled head to the chain polled before."""

    SAME = "same"
    ADVANCED = "advanced"
    REORGED = "reorged"
    BEHIND = "behind"
    BELOW_FINALIZED = "below finalized"


class HeadTracker:
    """The three labels, None until known, and the recent heads, each of which is the parent of the next.

    `reorg_depth` is how many blocks the last reorg replaced at least; more may have come and gone between two polls."""

    def __init__(self) -> None:
        self.head: L1BlockRef | None = None
        self.safe: L1BlockRef | None = None
        self.finalized: L1BlockRef | None = None
        self.reorg_depth = 0
        self._recent: dict[int, L1BlockRef] = {}
        self._times_behind = 0

    def below_head(self, depth: int) -> L1BlockRef | None:
        """Return the newest known canonical block at least `depth` below the head, or the finalized block."""
        if self.head is None:
            return None
        numbers = [number for number in self._recent if number <= self.head.number - depth]
        return self._recent[max(numbers)] if numbers else self.finalized

    def links(self, ref: L1BlockRef) -> bool:
        """Whether a block is one of the recent heads, or builds on one, so that it is on the same chain."""
        return self._is_ancestor(ref) or self._has_parent(ref)

    def update_head(self, ref: L1BlockRef) -> HeadChange:
        """Take a polled head.

        What may be an ancestor of the head, or a block below the finalized one, does not become the head at once: the
        endpoint lags, or is a proxy before several."""
        head = self.head
        if head is not None and ref.hash == head.hash:
            self._times_behind = 0
            return HeadChange.SAME
        if self.finalized is not None and ref.number < self.finalized.number:
            return HeadChange.BELOW_FINALIZED
        if head is not None and (self._is_ancestor(ref) or self._is_below_recent(ref)):
            # A proxy may answer from a node that is behind; only a chain that stays there was rolled back.
            self._times_behind += 1
            if self._times_behind < ROLLBACK_POLLS:
                return HeadChange.BEHIND
        self._times_behind = 0
        change = self._classify(ref)
        if head is not None and change is HeadChange.REORGED:
            self.reorg_depth = max(1, head.number - ref.number + (1 if self.links(ref) else 2))
        self._push(ref)
        self.head = ref
        return change

    def update_safe(self, ref: L1BlockRef) -> bool:
        """Take a polled safe block, which a reorg may move back; whether it changed."""
        changed = self.safe is None or self.safe.hash != ref.hash
        self.safe = ref
        return changed

    def update_finalized(self, ref: L1BlockRef) -> str | None:
        """Take a polled finalized block unless it contradicts head or finalized block; then returns the error."""
        head, before = self.head, self.finalized
        if head is not None and ref.number > head.number:
            return f"finalized L1 block {ref} is above the head {head}"
        if (known := self._recent.get(ref.number)) is not None and known.hash != ref.hash:
            return f"finalized L1 block {ref} is not on the chain of the head: block {known} is"
        if before is not None and ref.number < before.number:
            return f"finalized L1 block went back from {before} to {ref}"
        if before is not None and ref.number == before.number and ref.hash != before.hash:
            return f"finalized L1 block {before} became {ref}: another chain"
        self.finalized = ref
        return None

    def drop_finalized(self) -> None:
        """Forget safe and finalized block and all recent heads: the chain that they are on is disproved."""
        self.safe = self.finalized = self.head = None
        self._recent.clear()
        self._times_behind = 0

    def _is_ancestor(self, ref: L1BlockRef) -> bool:
        recent = self._recent.get(ref.number)
        return recent is not None and recent.hash == ref.hash

    def _is_below_recent(self, ref: L1BlockRef) -> bool:
        """Whether a block is below all recent heads and contradicts none, so that it may be an ancestor of them."""
        lowest = self._recent[min(self._recent)]
        return ref.number < lowest.number and (ref.number < lowest.number - 1 or ref.hash == lowest.parent_hash)

    def _has_parent(self, ref: L1BlockRef) -> bool:
        parent = self._recent.get(ref.number - 1)
        return parent is not None and parent.hash == ref.parent_hash

    def _classify(self, ref: L1BlockRef) -> HeadChange:
        if self.head is None or ref.number > self.head.number + 1:
            return HeadChange.ADVANCED
        if ref.number == self.head.number + 1 and ref.parent_hash == self.head.hash:
            return HeadChange.ADVANCED
        return HeadChange.REORGED

    def _push(self, ref: L1BlockRef) -> None:
        """Add the new head and keep only the recent heads that it builds on."""
        if not self._has_parent(ref):
            self._recent.clear()
        for number in [number for number in self._recent if number >= ref.number]:
            del self._recent[number]
        self._recent[ref.number] = ref
        self._recent.pop(ref.number - MAX_RECENT, None)


E = TypeVar("E")


class NewestBody(NamedTuple, Generic[E]):
    """The undecoded answer of an endpoint with the full block of that number."""

    endpoint: E
    number: int
    body: bytes


class NewestBlock(Generic[E]):
    """At the tip of the chain each new block is fetched as soon as a poll has shown it.

    A poll that asks for the transactions as well saves that request, but its answer is many times as large; so it
    pays where most polls show a new block. `poll_interval` is in seconds; `is_awaited` says whether a client wants
    the block of a number next, once it is the head. E is the type of endpoints."""

    def __init__(self, poll_interval: float, is_awaited: Callable[[int], bool]) -> None:
        self._poll_interval, self._is_awaited = poll_interval, is_awaited
        self._block_time: float | None = None
        self._body: NewestBody[E] | None = None

    def pays(self, head: L1BlockRef | None, notified: bool) -> bool:
        """Whether the next poll should ask for the transactions: the block after `head` is awaited, and likely there.

        The endpoint has `notified` of it, or the interval between polls is at least half of that between blocks."""
        is_likely = notified or (self._block_time is not None and self._poll_interval * 2 >= self._block_time)
        return is_likely and head is not None and self._is_awaited(head.number + 1)

    def advanced(self, before: L1BlockRef | None, head: L1BlockRef) -> None:
        """Take a new head and the one before, for the interval between blocks."""
        if before is not None and head.number > before.number:
            self._block_time = (head.timestamp - before.timestamp) / (head.number - before.number)

    def put(self, body: NewestBody[E] | None) -> None:
        """Keep the answer with a new head, if it has the whole block, in place of the one before."""
        self._body = body

    def take(self, number: int) -> NewestBody[E] | None:
        """Return the kept answer if it has that block, once: after an error the block is fetched."""
        if self._body is None or self._body.number != number:
            return None
        result, self._body = self._body, None
        return result
