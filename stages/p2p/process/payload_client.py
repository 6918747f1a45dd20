"""What the p2p process asks of the engine process: blocks of our chain for peers."""

import asyncio
from typing import Any

from rollup_node.ipc.bus.bus import Bus
from rollup_node.stages.messages.p2p import PayloadRequest, PayloadResponse
from rollup_node.stages.protocol.payloads import ExecutionPayload

RESEND_SECONDS = 1.0
TIMEOUT_SECONDS = 8.0


class PayloadClient:
    """The client of `engine.payloads`."""

    def __init__(self, bus: Bus) -> None:
        self._last = 0
        self._waiting: dict[int, asyncio.Future[PayloadResponse]] = {}
        self._client = bus.connect("engine.payloads", self._on_message)

    async def read(self, number: int) -> ExecutionPayload | None:
        """The canonical block of a number, None if there is none; TimeoutError if the engine cannot say in time."""
        self._last += 1
        want = PayloadRequest(self._last, number)
        answer: asyncio.Future[PayloadResponse] = asyncio.get_running_loop().create_future()
        self._waiting[want.id] = answer
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                while not answer.done():
                    self._client.send(want)
                    await asyncio.wait((answer,), timeout=RESEND_SECONDS)
        finally:
            del self._waiting[want.id]
        found = answer.result()
        if found.error is not None:
            raise TimeoutError(found.error)
        return found.payload

    def _on_message(self, message: Any) -> None:
        answer = self._waiting.get(message.id)
        if answer is not None and not answer.done():
            answer.set_result(message)
