"""The last drops of this incarnation, numbered from 0, for readers that request them page by page."""

from collections import deque
from itertools import islice

from rollup_node.stages.derivation.reasons.reason import Dropped
from rollup_node.stages.derivation.reasons.singular import ParentHashMismatch
from rollup_node.stages.derivation.reasons.span import SpanParentMismatch
from rollup_node.stages.messages.derivation import Drop, DropsRequest, DropsResponse

KEPT = 1000
PAGE = 200


class DropBuffer:
    """A ring buffer of `kept` drops.

    Readers name the number that they want next, so no state is kept for each. Texts are made of the drops that are
    read, since a batcher can post a million of them in a few L1 blocks."""

    def __init__(self, kept: int = KEPT) -> None:
        self.total = 0
        self._drops: deque[Dropped] = deque(maxlen=kept)
        self._kept = kept
        self._read = 0

    def add(self, dropped: Dropped) -> None:
        """Add a drop; when there are too many, the oldest goes."""
        self._drops.append(dropped)
        self.total += 1

    def answer(self, request: DropsRequest) -> DropsResponse:
        """Return the drops from the requested number on, at most a page of them, or from the oldest that is kept."""
        self._read = max(self._read, min(request.first, self.total))
        oldest = self.total - len(self._drops)
        first = min(max(request.first, oldest), self.total)
        page = islice(self._drops, first - oldest, first - oldest + PAGE)
        return DropsResponse(request.id, first, tuple(map(_message, page)), self.total)

    def latest(self, count: int) -> tuple[Drop, ...]:
        """Return the last `count` drops, oldest first, or as many as are kept."""
        size = len(self._drops)
        return tuple(map(_message, islice(self._drops, max(0, size - count), size)))

    @property
    def is_full(self) -> bool:
        """Whether the next drop would push out one that no reader has received."""
        return self.total - self._read >= self._kept


def _message(dropped: Dropped) -> Drop:
    reason = dropped.reason
    return Drop(
        rule=reason.rule,
        text=str(dropped),
        origin=dropped.origin,
        needs_parent_hash=isinstance(reason, ParentHashMismatch | SpanParentMismatch),
        effect=dropped.effect,
        reason=reason.name,
        values=reason.values,
    )
