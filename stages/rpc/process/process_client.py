"""Questions to other processes: sent again until the answer comes, so that neither side's restart loses one."""

import asyncio
from collections.abc import Callable
from typing import Any

from rollup_node.ipc.bus.bus import Bus

AGAIN = 1.0


class AskClient:
    """Asks over one channel, whose messages carry numbers that are unique within this life of the process."""

    def __init__(self, bus: Bus, channel: str) -> None:
        self._last = 0
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._client = bus.connect(channel, self._take)

    async def ask(self, question: Callable[[int], Any]) -> Any:
        """The answer to a question made with its number; waits without a limit of its own."""
        self._last += 1
        message = question(self._last)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[message.id] = answer
        try:
            while not answer.done():
                self._client.send(message)
                await asyncio.wait((answer,), timeout=AGAIN)
            return answer.result()
        finally:
            del self._waiting[message.id]

    def _take(self, message: Any) -> None:
        answer = self._waiting.get(message.id)
        if answer is not None and not answer.done():
            answer.set_result(message)
