"""Requests to another process, which are repeated until they are answered."""

import asyncio
from collections.abc import Callable
from typing import Any

from rollup_node.ipc.bus.bus import Bus, GroupView

REPEAT_SECONDS = 1.0
MAX_PENDING = 64
"""Requests that wait for their response at the same time; further ones wait to be sent, so that others (clients of an
RPC server, peers) cannot keep the other process busy with repetitions."""


class RequestClient:
    """Sends requests, with ids unique within the process's life; `on_other` takes what is no response."""

    def __init__(
        self, bus: Bus | GroupView, channel: str, on_other: Callable[[Any], None] = lambda message: None
    ) -> None:
        self._last_id = 0
        self._pending: dict[int, asyncio.Future[Any]] = {}
        self._free = asyncio.Semaphore(MAX_PENDING)
        self._on_other = on_other
        self._client = bus.connect(channel, self._on_response)

    def send(self, message: Any) -> None:
        """Send a message that has no response of its own."""
        self._client.send(message)

    async def request(self, new_request: Callable[..., Any], *params: object) -> Any:
        """Return the response to the message that `new_request` returns for an id. Waits without a timeout."""
        async with self._free:
            self._last_id += 1
            message = new_request(self._last_id, *params)
            response: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            self._pending[message.id] = response
            try:
                # A message may be lost with either process; the other side ignores repetitions.
                while not response.done():
                    self._client.send(message)
                    await asyncio.wait((response,), timeout=REPEAT_SECONDS)
                return response.result()
            finally:
                del self._pending[message.id]

    def _on_response(self, message: Any) -> None:
        request_id = getattr(message, "id", None)
        if request_id is None:
            self._on_other(message)
            return
        response = self._pending.get(request_id)
        if response is not None and not response.done():
            response.set_result(message)
