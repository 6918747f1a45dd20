"""The last drops of this incarnation, numbered from 0, for readers that request them page by page."""

from collections import deque
from itertools import islice

from rollup_node.stages.messages.derivation import Drop, DropsRequest, DropsResponse

KEPT = 1000
PAGE = 200


class DropBuffer:
    """A ring buffer of `kept` drops. Readers name the number that they want next, so no state is kept for each."""

    def __init__(self, kept: int = KEPT) -> None:
        self.total = 0
        self._drops: deque[Drop] = deque(maxlen=kept)
        self._kept = kept
        self._read = 0

    def add(self, drop: Drop) -> None:
        """Adds a drop; when there are too many, the oldest goes."""
        self._drops.append(drop)
        self.total += 1

    def answer(self, request: DropsRequest) -> DropsResponse:
        """The drops from the requested number on, at most a page of them, or from the oldest that is kept."""
        self._read = max(self._read, min(request.first, self.total))
        oldest = self.total - len(self._drops)
        first = min(max(request.first, oldest), self.total)
        page = tuple(islice(self._drops, first - oldest, first - oldest + PAGE))
        return DropsResponse(request.id, first, page, self.total)

    @property
    def is_full(self) -> bool:
        """Whether the next drop would push out one that no reader has received."""
        return self.total - self._read >= self._kept
