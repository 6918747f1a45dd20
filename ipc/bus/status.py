"""STATUS channels: each message is the whole state of its type and is repeated, so that a lost one costs a second and
a subscriber needs no snapshot. (incarnation, sequence) orders them."""

import time
from collections.abc import Callable
from typing import Any

from rollup_node.ipc.bus.timers import aligned_deadline
from rollup_node.ipc.bus.transport import Transport, split_frames
from rollup_node.ipc.wire.codec import Codec, Envelope, UnusableMessage, encode_header
from rollup_node.ipc.wire.sockets import ChannelSocket

REPEAT_SECONDS = 1.0
_NO_TIMER = 60.0


class Publisher:
    """The bound side: keeps the last state of each message type and repeats them all every second."""

    def __init__(self, socket: ChannelSocket, transport: Transport, down: Any) -> None:
        self.sockets = (socket,)
        self._socket, self._transport, self._codec = socket, transport, Codec(down)
        self._states: dict[type, tuple[Any, list[bytes]]] = {}
        self._sequence = 0
        self._due = 0.0
        self._subscribed = False

    def set(self, state: Any) -> None:
        """Makes `state` the last of its type and sends it, unless it equals the one before."""
        last = self._states.get(type(state))
        if last is not None and last[0] == state:
            return
        payload = self._codec.encode(state)
        self._sequence += 1
        header = Envelope(*self._transport.process_id, self._sequence, 0, None)
        frames = [encode_header(header), payload]
        self._states[type(state)] = (state, frames)
        self._socket.send(frames)

    def receive(self) -> bool:
        """Handles subscriptions: all states are sent at the next tick; True when there may be more."""
        return self._socket.receive(self._on_subscription)

    def _on_subscription(self, _frames: list[bytes]) -> None:
        self._subscribed = True

    def tick(self, now: float) -> float:
        """Repeats the states when they are due; returns the time of the next repetition."""
        if now >= self._due or self._subscribed:
            self._due, self._subscribed = aligned_deadline(now, REPEAT_SECONDS), False
            for _, frames in self._states.values():
                self._socket.send(frames)
        return self._due


class Subscriber:
    """The connected side: its handler gets only states newer than the last of their type. `last_seen` is the monotonic
    time of the last message, repeated ones included; None before the first."""

    def __init__(
        self,
        name: str,
        socket: ChannelSocket,
        transport: Transport,
        server: int,
        down: Any,
        handler: Callable[[Any], object],
    ) -> None:
        self.sockets = (socket,)
        self._name, self._socket, self._transport, self._server = name, socket, transport, server
        self._codec, self._handler = Codec(down), handler
        self._last: dict[type, tuple[int, int]] = {}
        self.last_seen: float | None = None

    def receive(self) -> bool:
        """Handles waiting states; True when there may be more."""
        return self._socket.receive(self._on_message)

    def tick(self, now: float) -> float:
        """Has no timer of its own."""
        return now + _NO_TIMER

    def _on_message(self, frames: list[bytes]) -> None:
        try:
            sender, sequence, state = self._transport.receive(*split_frames(frames), self._codec, (self._server,))
        except UnusableMessage as error:
            self._transport.count_dropped(self._name, error)
            return
        self.last_seen = time.monotonic()
        version = (sender.incarnation, sequence)
        if version > self._last.get(type(state), (0, 0)):
            self._last[type(state)] = version
            self._handler(state)
