"""The newest L1 block with its transactions, from a poll of the head, until the block is fetched [LHD25]."""

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

from rollup_node.stages.protocol.types import L1BlockRef

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
        """Return the answer that is kept if it has that block.

        It is returned once: after an error the block is fetched."""
        if self._body is None or self._body.number != number:
            return None
        found, self._body = self._body, None
        return found
