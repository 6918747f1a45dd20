"""Blocks of the execution engine for the p2p process, which serves them to peers."""

from collections import deque
from collections.abc import Awaitable, Callable

from rollup_node.ipc.bus.bus import Bus, ProcessId
from rollup_node.stages.messages.p2p import PayloadRequest, PayloadResponse
from rollup_node.stages.protocol.errors import TemporaryError
from rollup_node.stages.protocol.payloads import ExecutionPayload

MOST_WAITING = 64


class PayloadsServer:
    """The server of `engine.payloads`; `read` gives the canonical block of a number, `wake` asks for a `step`. What
    does not find room is lost, and asked for again."""

    def __init__(
        self, bus: Bus, read: Callable[[int], Awaitable[ExecutionPayload | None]], wake: Callable[[], None]
    ) -> None:
        self._read, self._wake = read, wake
        self._waiting: deque[tuple[ProcessId, PayloadRequest]] = deque()
        self._server = bus.serve("engine.payloads", self._take)

    async def step(self) -> None:
        """Answers everything that waits now."""
        while self._waiting:
            peer, wanted = self._waiting[0]
            try:
                found = PayloadResponse(wanted.id, await self._read(wanted.number), None)
            except TemporaryError as error:
                found = PayloadResponse(wanted.id, None, str(error))
            self._waiting.popleft()
            self._server.send(peer, found)

    def _take(self, peer: ProcessId, message: PayloadRequest) -> None:
        if (peer, message) not in self._waiting and len(self._waiting) < MOST_WAITING:
            self._waiting.append((peer, message))
            self._wake()
