"""Derivation's last drops: asked for page by page, each page until it comes."""

from typing import NamedTuple

from rollup_node.ipc.bus.bus import Bus
from rollup_node.stages.messages.derivation import Drop, DropsRequest, DropsResponse
from rollup_node.stages.rpc.process.process_client import AskClient


class KeptDrops(NamedTuple):
    """How much was dropped in this life of derivation, and what is kept of it, oldest first."""

    total: int
    drops: tuple[Drop, ...]


class DropsClient:
    """Asks over `derivation.drops`."""

    def __init__(self, bus: Bus) -> None:
        self._pages = AskClient(bus, "derivation.drops")

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

    async def _page(self, first: int) -> DropsResponse:
        found: DropsResponse = await self._pages.ask(lambda number: DropsRequest(number, first))
        return found
