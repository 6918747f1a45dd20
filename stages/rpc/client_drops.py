"""Derivation's last drops: asked for page by page, each page until it comes."""

import asyncio
from typing import Any, NamedTuple

from rollup_node.ipc.bus import Bus
from rollup_node.stages.messages import Drop, DropsFound, WantDrops

AGAIN = 1.0


class KeptDrops(NamedTuple):
    """How much was dropped in this life of derivation, and what is kept of it, oldest first."""

    total: int
    drops: tuple[Drop, ...]


class DropsClient:
    """Asks over `derivation.drops`."""

    def __init__(self, bus: Bus) -> None:
        self._last = 0
        self._waiting: dict[int, asyncio.Future[DropsFound]] = {}
        self._client = bus.connect("derivation.drops", self._take)

    async def ask(self) -> KeptDrops:
        """All drops that are kept; waits without a limit of its own."""
        drops: list[Drop] = []
        found = await self._page(0)
        while True:
            drops += found.drops
            following = found.first + len(found.drops)
            if following >= found.total or not found.drops:
                return KeptDrops(found.total, tuple(drops))
            found = await self._page(following)

    async def _page(self, first: int) -> DropsFound:
        self._last += 1
        want = WantDrops(self._last, first)
        answer: asyncio.Future[DropsFound] = asyncio.get_running_loop().create_future()
        self._waiting[want.id] = answer
        try:
            while not answer.done():
                self._client.send(want)
                await asyncio.wait((answer,), timeout=AGAIN)
            return answer.result()
        finally:
            del self._waiting[want.id]

    def _take(self, message: Any) -> None:
        answer = self._waiting.get(message.id)
        if answer is not None and not answer.done():
            answer.set_result(message)
