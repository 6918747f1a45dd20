"""STATUS channels: each message is the whole state of its type, and is repeated.

A lost one costs a second, and a subscriber needs no snapshot. (incarnation, sequence) orders them."""

import time
from collections.abc import Callable
from typing import Any

from rollup_node.ipc.bus.timers import aligned_deadline
from rollup_node.ipc.bus.transport import Transport, split_frames
from rollup_node.ipc.wire.codec import Codec, Envelope, UnusableMessage, encode_header
from rollup_node.ipc.wire.sockets import ChannelSocket

REPEAT_SECONDS = 1.0
MIN_SECONDS = 0.05
"""Between two states of a type that change without a pause: a node that catches up changes its heads hundreds of times
a second, and each message costs its readers more than they gain from it."""
_NO_TIMER = 60.0


class Publisher:
    """The bound side: keeps the last state of each message type and repeats them all every second.

    A state that follows its predecessor within MIN_SECONDS is sent at their end, unless it is urgent or another has
    replaced it by then. `wake` has `tick` called soon; `on_send` gets each state when it is sent for the first time."""

    def __init__(
        self, socket: ChannelSocket, transport: Transport, down: Any, wake: Callable[[], None] = lambda: None
    ) -> None:
        self.sockets = (socket,)
        self._socket, self._transport, self._codec, self._wake = socket, transport, Codec(down), wake
        self._states: dict[type, Any] = {}
        self._sent: dict[type, tuple[float, list[bytes]]] = {}
        self._waiting: dict[type, float] = {}
        self._sequence = 0
        self._due = 0.0
        self._subscribed = False
        self.on_send: Callable[[Any], object] | None = None

    def set(self, state: Any, urgent: bool = False) -> None:
        """Make `state` the last of its type and sends it, unless it equals the one before."""
        kind = type(state)
        if self._states.get(kind) == state:
            return
        self._states[kind] = state
        now = time.monotonic()
        sent = self._sent.get(kind)
        if urgent or sent is None or now - sent[0] >= MIN_SECONDS:
            self._send(kind, now)
        elif kind not in self._waiting:
            self._waiting[kind] = sent[0] + MIN_SECONDS
            self._wake()

    def _send(self, kind: type, now: float) -> None:
        self._waiting.pop(kind, None)
        payload = self._codec.encode(self._states[kind])
        self._sequence += 1
        frames = [encode_header(Envelope(*self._transport.process_id, self._sequence, 0, None)), payload]
        self._sent[kind] = now, frames
        self._socket.send(frames)
        if self.on_send is not None:
            self.on_send(self._states[kind])

    def receive(self) -> bool:
        """Handle subscriptions: all states are sent at the next tick; True when there may be more."""
        return self._socket.receive(self._on_subscription)

    def _on_subscription(self, _frames: list[bytes]) -> None:
        self._subscribed = True

    def tick(self, now: float) -> float:
        """Send the states that wait, and repeats all when they are due; returns the time of the next of both."""
        for kind in [kind for kind, due in self._waiting.items() if now >= due]:
            self._send(kind, now)
        if now >= self._due or self._subscribed:
            self._due, self._subscribed = aligned_deadline(now, REPEAT_SECONDS), False
            for _, frames in self._sent.values():
                self._socket.send(frames)
        return min(self._due, *self._waiting.values()) if self._waiting else self._due


class Subscriber:
    """The connected side: its handler gets only states newer than the last of their type.

    `last_seen` is the monotonic time of the last message, repeated ones included; None before the first."""

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
        """Handle waiting states; True when there may be more."""
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
