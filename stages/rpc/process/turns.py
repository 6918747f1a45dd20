"""Turns on the event loop: few requests work in one iteration of it, so that sockets and heartbeats are served too."""

import asyncio
from collections.abc import Hashable

from rollup_node.stages.rpc.fair_queue import FairQueue

TURN_SECONDS = 0.004
"""How long a request may keep the loop busy before it waits for its next turn."""


class Turns:
    """Lets `per_iteration` waiters go on in each iteration of the event loop, fairly between keys, the urgent ones of a
    key first. With fewer of them nobody waits."""

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
