"""How many requests an L1 block costs."""

from collections import deque

WINDOW = 100


class RequestsPerBlock:
    """The mean over the last WINDOW blocks; `requests` is the total of all requests so far."""

    def __init__(self) -> None:
        self._seen: deque[tuple[int, int]] = deque([(0, 0)])

    def add(self, blocks: int, requests: int) -> float:
        """The mean after `blocks` further blocks, at least one."""
        total = self._seen[-1][0] + blocks
        self._seen.append((total, requests))
        while len(self._seen) > 2 and total - self._seen[1][0] >= WINDOW:
            self._seen.popleft()
        first_blocks, first_requests = self._seen[0]
        return (requests - first_requests) / (total - first_blocks)
