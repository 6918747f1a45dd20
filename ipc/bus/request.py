"""REQUEST channels: a server answers its clients. Clients repeat requests until answered, so nothing is kept here."""

from collections.abc import Callable, Sequence
from typing import Any

from rollup_node.ipc.bus.transport import Transport, split, split_routed
from rollup_node.ipc.wire.codec import Codec, UnusableMessage
from rollup_node.ipc.wire.process_id import ProcessId
from rollup_node.ipc.wire.sockets import Link


class Server:
    """The bound side of an REQUEST channel."""

    def __init__(
        self,
        name: str,
        link: Link,
        courier: Transport,
        clients: Sequence[int],
        up: Any,
        down: Any,
        handler: Callable[[ProcessId, Any], None],
    ) -> None:
        self.links = (link,)
        self._name, self._link, self._courier, self._clients = name, link, courier, clients
        self._up, self._down = Codec(up), Codec(down)
        self._handler = handler

    def send(self, peer: ProcessId, message: Any) -> bool:
        """Answers without waiting; False when it was not sent: the peer is gone, or its queue is full."""
        payload = self._down.encode(message)
        if self._courier.board.incarnation(peer.row) != peer.incarnation:
            self._courier.counters["sends_failed"] += 1
            return False
        return self._courier.post(self._link, [peer.identity()], peer.row, payload)

    def drain(self) -> bool:
        """Handles what has come in."""
        return self._link.drain(self._take)

    def tick(self, now: float) -> float:
        """Has nothing of its own to do."""
        return now + 60.0

    def _take(self, frames: list[bytes]) -> None:
        try:
            peer, _, message = self._courier.open(*split_routed(frames), self._up, self._clients)
        except UnusableMessage as problem:
            self._courier.count(self._name, problem)
            return
        self._handler(peer, message)


class Client:
    """The connected side of an REQUEST channel. It repeats nothing by itself."""

    def __init__(
        self,
        name: str,
        link: Link,
        courier: Transport,
        server: int,
        up: Any,
        down: Any,
        handler: Callable[[Any], None],
    ) -> None:
        self.links = (link,)
        self._name, self._link, self._courier, self._server = name, link, courier, server
        self._up, self._down = Codec(up), Codec(down)
        self._handler = handler

    def send(self, message: Any) -> bool:
        """Asks without waiting; False when it was not sent: the queue to the server is full."""
        return self._courier.post(self._link, (), self._server, self._up.encode(message))

    def drain(self) -> bool:
        """Handles what has come in."""
        return self._link.drain(self._take)

    def tick(self, now: float) -> float:
        """Has nothing of its own to do."""
        return now + 60.0

    def _take(self, frames: list[bytes]) -> None:
        try:
            received = self._courier.open(*split(frames), self._down, (self._server,))
        except UnusableMessage as problem:
            self._courier.count(self._name, problem)
            return
        self._handler(received.message)
