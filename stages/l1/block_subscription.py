"""What one client wants of the L1 chain and what it was sent: needs repeat until they are met, answers may be lost."""

from collections.abc import Callable, Iterator

from rollup_node.stages.l1.window import Range
from rollup_node.stages.messages.l1 import L1BlockUnavailable
from rollup_node.stages.protocol.types import Hash, L1Block

MAX_COUNT = 1024


class Demand:
    """One client's need. `confirmations` hides the newest blocks from it (node-behaviour 10.2), `ahead` blocks are
    fetched before it asks for them. When the first block of an ask was sent `again` seconds ago or more, what was sent
    until then counts as lost."""

    def __init__(self, confirmations: int, ahead: int, again: float) -> None:
        self._confirmations = confirmations
        self._ahead = ahead
        self._again = again
        self._first = 0
        self._count = 0
        self._sent: dict[int, tuple[Hash, float]] = {}

    def ask(self, first: int, count: int, now: float) -> None:
        """Takes an ask; one for what was sent before means that it was lost, or put away."""
        if first < self._first:
            self._sent.clear()
        elif first in self._sent and now - self._sent[first][1] >= self._again:
            self._sent = {number: mark for number, mark in self._sent.items() if now - mark[1] < self._again}
        for number in [number for number in self._sent if number < first]:
            del self._sent[number]
        self._first = first
        self._count = min(count, MAX_COUNT)

    def visible(self, head: int | None) -> int | None:
        """The newest number this client may see; None when the head is unknown."""
        return None if head is None else head - self._confirmations

    def wanted(self, head: int | None) -> Range | None:
        """The numbers to have at hand for this client, from the first that it was not sent."""
        first = next((number for number in self._numbers() if number not in self._sent), None)
        if first is None:
            first = self._first + self._count
            last = self._first + self._ahead - 1
        else:
            last = max(self._first + self._count, self._first + self._ahead) - 1
        visible = self.visible(head)
        if visible is not None:
            last = min(last, visible)
        return Range(first, last) if first <= last else None

    def to_send(self, get: Callable[[int], L1Block | None], head: int | None) -> Iterator[L1Block]:
        """Blocks at hand that the client wants and was not sent."""
        visible = self.visible(head)
        for number in self._numbers():
            if visible is not None and number > visible:
                return
            block = get(number)
            if block is not None and self._sent.get(number, (None, 0))[0] != block.header.hash:
                yield block

    def sent(self, block: L1Block, now: float) -> None:
        """Notes that a block went out."""
        self._sent[block.header.number] = (block.header.hash, now)

    def missing(
        self, head: int | None, no_head: str | None, failure: Callable[[int], tuple[str | None] | None]
    ) -> L1BlockUnavailable | None:
        """What to say of the first block that the client waits for: that it is not there yet, or cannot be had. With
        the head unknown the reason is `no_head`; None lets all numbers count as visible."""
        number = next((number for number in self._numbers() if number not in self._sent), None)
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
        return L1BlockUnavailable(number, max(number - 1, 0) if visible is None else visible, failed[0])

    def _numbers(self) -> range:
        return range(self._first, self._first + self._count)
