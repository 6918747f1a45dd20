"""The drops that derivation has kept, fetched page by page."""

from typing import NamedTuple

from rollup_node.ipc.bus.bus import Bus
from rollup_node.stages.messages.derivation import Drop, DropsRequest, DropsResponse
from rollup_node.stages.rpc.process.process_client import ProcessClient


class KeptDrops(NamedTuple):
    """`total` counts all drops since derivation started; `drops` are those it has kept, oldest first."""

    total: int
    drops: tuple[Drop, ...]


class DropsClient:
    """Reads drops over `derivation.drops`; a request is repeated until it is answered."""

    def __init__(self, bus: Bus) -> None:
        self._client = ProcessClient(bus, "derivation.drops")

    async def fetch(self) -> KeptDrops:
        """Return all kept drops; waits without a timeout."""
        drops: list[Drop] = []
        page = await self.page(0)
        while True:
            drops += page.drops
            following = page.first + len(page.drops)
            if following >= page.total or not page.drops:
                return KeptDrops(page.total, tuple(drops))
            page = await self.page(following)

    async def page(self, first: int) -> DropsResponse:
        """Return drops from a number on, or from the oldest that is kept; waits without a timeout."""
        page: DropsResponse = await self._client.request(lambda request_id: DropsRequest(request_id, first))
        return page
