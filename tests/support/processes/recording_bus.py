"""A bus without sockets: handlers are called by the test, and what is sent is recorded."""

from collections.abc import Callable
from typing import Any

from rollup_node.ipc.bus.bus import ProcessId


class _Server:
    def __init__(self, bus: "RecordingBus") -> None:
        self._bus = bus

    def send(self, peer: ProcessId, message: Any) -> None:
        self._bus.sent.append((peer, message))


class _Client:
    def __init__(self, bus: "RecordingBus") -> None:
        self._bus = bus

    def send(self, message: Any) -> None:
        self._bus.sent.append((None, message))


class RecordingBus:
    """Has the methods `serve` and `connect` of Bus; `sent` holds messages with their receiver, None for a server."""

    def __init__(self) -> None:
        self.handlers: dict[str, Callable[..., None]] = {}
        self.sent: list[tuple[ProcessId | None, Any]] = []

    def serve(self, channel: str, handler: Callable[[ProcessId, Any], None]) -> _Server:
        self.handlers[channel] = handler
        return _Server(self)

    def connect(self, channel: str, handler: Callable[[Any], None]) -> _Client:
        self.handlers[channel] = handler
        return _Client(self)
