"""The last drops, numbered from 0 in this life of the process, for those who ask why."""

from collections import deque
from itertools import islice

from rollup_node.stages.messages.derivation import Drop, DropsRequest, DropsResponse

KEPT = 1000
PAGE = 200


class DropHistory:
    """Readers name the number they want next; so what they had is known without being remembered for each."""

    def __init__(self, kept: int = KEPT) -> None:
        self.total = 0
        self._drops: deque[Drop] = deque(maxlen=kept)
        self._kept = kept
        self._had = 0

    def add(self, drop: Drop) -> None:
        """Adds one; the oldest goes when there are too many."""
        self._drops.append(drop)
        self.total += 1

    def answer(self, want: DropsRequest) -> DropsResponse:
        """The drops from the wanted number on, as many as a message holds, or from the oldest kept."""
        self._had = max(self._had, min(want.first, self.total))
        oldest = self.total - len(self._drops)
        first = min(max(want.first, oldest), self.total)
        page = tuple(islice(self._drops, first - oldest, first - oldest + PAGE))
        return DropsResponse(want.id, first, page, self.total)

    @property
    def is_full(self) -> bool:
        """Whether the next drop would push out one that no reader had."""
        return self.total - self._had >= self._kept
