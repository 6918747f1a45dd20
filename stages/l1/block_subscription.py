"""The L1 blocks that a client has requested and was sent; requests repeat, as responses may get lost."""

from collections.abc import Callable, Iterator

from rollup_node.stages.l1.prefetch_window import BlockRange, FetchFailure
from rollup_node.stages.messages.base import Problem
from rollup_node.stages.messages.l1 import L1BlockUnavailable
from rollup_node.stages.protocol.types import Hash, L1Block

MAX_COUNT = 1024


class BlockSubscription:
    """One client's requests.

    `confirmations` hides the newest blocks from it [LHD9]; `prefetch` blocks are fetched before it requests them. A
    request whose first block was sent `resend_after` seconds ago or more means that what was sent until then is
    lost. Times are seconds of any monotonic clock."""

    def __init__(self, confirmations: int, prefetch: int, resend_after: float) -> None:
        self._confirmations, self._prefetch, self._resend_after = confirmations, prefetch, resend_after
        self._first = self._count = 0
        self._sent: dict[int, tuple[Hash, float]] = {}

    def request(self, first: int, count: int, now: float) -> None:
        """Take a request, which replaces the one before and acknowledges all blocks below `first`."""
        # The client went back in a reset, and needs all blocks again.
        if first < self._first:
            self._sent.clear()
        elif first in self._sent and now - self._sent[first][1] >= self._resend_after:
            self._sent = {number: mark for number, mark in self._sent.items() if now - mark[1] < self._resend_after}
        for number in [number for number in self._sent if number < first]:
            del self._sent[number]
        self._first = first
        self._count = min(count, MAX_COUNT)

    def visible(self, head: int | None) -> int | None:
        """Return the newest number that this client may see; None while the head is unknown."""
        return None if head is None else head - self._confirmations

    def wanted(self, head: int | None) -> BlockRange | None:
        """Return the numbers to fetch for this client, from the first that it was not sent; None if there are none."""
        first = next((number for number in self._requested() if number not in self._sent), None)
        if first is None:
            first = self._first + self._count
            last = self._first + self._prefetch - 1
        else:
            last = max(self._first + self._count, self._first + self._prefetch) - 1
        visible = self.visible(head)
        if visible is not None:
            last = min(last, visible)
        return BlockRange(first, last) if first <= last else None

    def awaits(self, number: int) -> bool:
        """Whether the client wants that block next, and may see it as soon as it is the head."""
        wanted = self.wanted(number)
        return wanted is not None and wanted.first == number

    def to_send(self, get: Callable[[int], L1Block | None], head: int | None) -> Iterator[L1Block]:
        """Yield the requested blocks that `get` returns and that were not sent, or were sent with another hash."""
        visible = self.visible(head)
        for number in self._requested():
            if visible is not None and number > visible:
                return
            block = get(number)
            if block is not None and self._sent.get(number, (None, 0))[0] != block.header.hash:
                yield block

    def sent(self, block: L1Block, now: float) -> None:
        self._sent[block.header.number] = (block.header.hash, now)

    def unavailable(
        self, head: int | None, no_head: Problem | None, failure: Callable[[int], FetchFailure | None]
    ) -> L1BlockUnavailable | None:
        """Return that L1 does not have the first block that the client waits for, or that fetching it fails.

        `no_head` is the error while the head is unknown; with None all numbers count as visible then. None if the
        block may still come, or the client waits for none."""
        number = next((number for number in self._requested() if number not in self._sent), None)
        if number is None:
            return None
        visible = self.visible(head)
        if visible is None and no_head is not None:
            return L1BlockUnavailable(number, 0, no_head)
        if visible is not None and number > visible:
            return L1BlockUnavailable(number, max(visible, 0), None)
        failed = failure(number)
        if failed is None:
            return None
        return L1BlockUnavailable(number, max(number - 1, 0) if visible is None else visible, failed.error)

    def _requested(self) -> range:
        return range(self._first, self._first + self._count)
