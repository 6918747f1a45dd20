"""Turns on the event loop: few requests work in one iteration of it, so that sockets and heartbeats are served too."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Hashable
from typing import Generic, TypeVar

Item = TypeVar("Item")

TURN_SECONDS = 0.004
"""How long a request may keep the loop busy before it waits for its next turn."""


class Turns:
    """Lets `per_iteration` waiters go on in each iteration of the event loop, fairly between keys."""

    def __init__(self, per_iteration: int) -> None:
        self._queue: FairQueue[asyncio.Future[None]] = FairQueue()
        self._per_iteration = self._free = per_iteration
        self._is_scheduled = False

    async def turn(self, key: Hashable, *, urgent: bool = False) -> None:
        """Wait for a turn."""
        loop = asyncio.get_running_loop()
        if not self._is_scheduled:
            self._is_scheduled = True
            loop.call_soon(self._next_iteration, loop)
        if self._free:
            self._free -= 1
            return
        waiter: asyncio.Future[None] = loop.create_future()
        self._queue.push(key, waiter, urgent=urgent)
        await waiter

    def _next_iteration(self, loop: asyncio.AbstractEventLoop) -> None:
        self._free = self._per_iteration
        while self._free and self._queue:
            waiter = self._queue.pop()
            # A client that has gone away cancels its waiter.
            if not waiter.done():
                waiter.set_result(None)
                self._free -= 1
        self._is_scheduled = self._free < self._per_iteration
        if self._is_scheduled:
            loop.call_soon(self._next_iteration, loop)


class FairQueue(Generic[Item]):
    """Gives out one item of each key in turn, urgent ones first."""

    def __init__(self) -> None:
        self._by_key: OrderedDict[Hashable, tuple[deque[Item], deque[Item]]] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._by_key)

    def push(self, key: Hashable, item: Item, *, urgent: bool = False) -> None:
        """Add an item; a new key is the last in turn."""
        first, later = self._by_key.setdefault(key, (deque(), deque()))
        (first if urgent else later).append(item)

    def pop(self) -> Item:
        """Remove the next item. Raises IndexError if there is none."""
        if not self._by_key:
            raise IndexError("pop from an empty queue")
        key, items = self._by_key.popitem(last=False)
        first, later = items
        item = (first or later).popleft()
        if first or later:
            self._by_key[key] = items
        return item
