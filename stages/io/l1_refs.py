"""References of canonical L1 blocks from the l1 process, asked for again until it answers."""

import asyncio
from collections.abc import Callable
from typing import Any

from rollup_node.ipc.bus.bus import Bus
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.l1 import L1BlocksRequest, L1RefsRequest, L1RefsResponse
from rollup_node.stages.protocol.errors import TemporaryError
from rollup_node.stages.protocol.types import L1BlockRef

PATIENCE_SECONDS = 10.0
REPEAT_SECONDS = 0.6


class L1RefsClient:
    """The client of `l1.origins`; `on_other` takes what is no reference."""

    def __init__(self, bus: Bus, on_other: Callable[[Any], None] = lambda message: None) -> None:
        self._on_other = on_other
        self._asked: dict[int, list[asyncio.Future[L1RefsResponse]]] = {}
        self._client = bus.connect("l1.origins", self._take)

    def send(self, request: L1BlocksRequest) -> None:
        """Send another request, once."""
        self._client.send(request)

    async def ask(self, last: int, count: int = 1) -> tuple[L1BlockRef, ...]:
        """Return the block `last` and up to so many in all below it; none without it. Raises TemporaryError."""
        response: asyncio.Future[L1RefsResponse] = asyncio.get_running_loop().create_future()
        asked = self._asked.setdefault(last, [])
        asked.append(response)
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not response.done():
                    self._client.send(L1RefsRequest(last, count))
                    await asyncio.wait((response,), timeout=REPEAT_SECONDS)
        except TimeoutError:
            text = f"L1 block {last} is unavailable: the l1 process does not answer"
            raise TemporaryError(text, Code.PROCESS_SILENT) from None
        finally:
            asked.remove(response)
            if not asked:
                del self._asked[last]
        answer = response.result()
        if answer.error is not None:
            raise TemporaryError(f"L1 block {last} is unavailable: {answer.error.text}", answer.error.code)
        return answer.refs

    def _take(self, message: Any) -> None:
        if not isinstance(message, L1RefsResponse):
            self._on_other(message)
            return
        for response in self._asked.get(message.last, ()):
            if not response.done():
                response.set_result(message)
