"""REQUEST channels: a server responds to its clients.

Clients repeat requests until they are answered, so neither side keeps any here."""

from collections.abc import Callable, Sequence
from typing import Any

from rollup_node.ipc.bus.transport import Transport, split_frames, split_routed_frames
from rollup_node.ipc.wire.codec import Codec, UnusableMessage
from rollup_node.ipc.wire.process_id import ProcessId
from rollup_node.ipc.wire.sockets import ChannelSocket

_NO_TIMER = 60.0


class Server:
    """The bound side of a REQUEST channel; `handler` gets each request with its sender."""

    def __init__(
        self,
        name: str,
        socket: ChannelSocket,
        transport: Transport,
        clients: Sequence[int],
        up: Any,
        down: Any,
        handler: Callable[[ProcessId, Any], object],
    ) -> None:
        self.sockets = (socket,)
        self._name, self._socket, self._transport, self._clients = name, socket, transport, clients
        self._up, self._down = Codec(up), Codec(down)
        self._handler = handler

    def send(self, client: ProcessId, message: Any) -> bool:
        """Responds without waiting; False when it was not sent: the client is dead, or its queue is full."""
        payload = self._down.encode(message)
        if self._transport.liveness.incarnation(client.slot) != client.incarnation:
            self._transport.counters["sends_failed"] += 1
            return False
        return self._transport.send(self._socket, [client.routing_id()], client.slot, payload)

    def receive(self) -> bool:
        """Handle waiting requests; True when there may be more."""
        return self._socket.receive(self._on_message)

    def tick(self, now: float) -> float:
        """Has no timer of its own."""
        return now + _NO_TIMER

    def _on_message(self, frames: list[bytes]) -> None:
        try:
            client, _, message = self._transport.receive(*split_routed_frames(frames), self._up, self._clients)
        except UnusableMessage as error:
            self._transport.count_dropped(self._name, error)
            return
        self._handler(client, message)


class Client:
    """The connected side of a REQUEST channel; `handler` gets each response. Requests are not repeated by it."""

    def __init__(
        self,
        name: str,
        socket: ChannelSocket,
        transport: Transport,
        server: int,
        up: Any,
        down: Any,
        handler: Callable[[Any], object],
    ) -> None:
        self.sockets = (socket,)
        self._name, self._socket, self._transport, self._server = name, socket, transport, server
        self._up, self._down = Codec(up), Codec(down)
        self._handler = handler

    def send(self, message: Any) -> bool:
        """Send a request without waiting; False when it was not sent because the queue to the server is full."""
        return self._transport.send(self._socket, (), self._server, self._up.encode(message))

    def receive(self) -> bool:
        """Handle waiting responses; True when there may be more."""
        return self._socket.receive(self._on_message)

    def tick(self, now: float) -> float:
        """Has no timer of its own."""
        return now + _NO_TIMER

    def _on_message(self, frames: list[bytes]) -> None:
        try:
            received = self._transport.receive(*split_frames(frames), self._down, (self._server,))
        except UnusableMessage as error:
            self._transport.count_dropped(self._name, error)
            return
        self._handler(received.message)
