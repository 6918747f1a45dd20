"""The client of `engine.payloads`: blocks of our chain, for peers that request them."""

import asyncio
from typing import Any

from rollup_node.ipc.bus.bus import Bus
from rollup_node.stages.messages.p2p import PayloadRequest, PayloadResponse
from rollup_node.stages.protocol.payloads import ExecutionPayload

RESEND_SECONDS = 1.0
TIMEOUT_SECONDS = 8.0


class PayloadClient:
    """Requests payloads from the engine process; a request is repeated until it is answered."""

    def __init__(self, bus: Bus) -> None:
        self._last = 0
        self._waiting: dict[int, asyncio.Future[PayloadResponse]] = {}
        self._client = bus.connect("engine.payloads", self._on_message)

    async def read(self, number: int) -> ExecutionPayload | None:
        """Return the canonical block of a number, None if there is none.

        Raises TimeoutError when the engine process does not answer in time or reports an error."""
        self._last += 1
        request = PayloadRequest(self._last, number)
        response: asyncio.Future[PayloadResponse] = asyncio.get_running_loop().create_future()
        self._waiting[request.id] = response
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                while not response.done():
                    self._client.send(request)
                    await asyncio.wait((response,), timeout=RESEND_SECONDS)
        finally:
            del self._waiting[request.id]
        found = response.result()
        if found.error is not None:
            raise TimeoutError(found.error)
        return found.payload

    def _on_message(self, message: Any) -> None:
        response = self._waiting.get(message.id)
        if response is not None and not response.done():
            response.set_result(message)
