"""STATUS channels: each message is the whole state of its type, repeated, so that a lost one costs a second and a
subscriber needs no snapshot. (incarnation, sequence) orders them."""

import time
from collections.abc import Callable
from typing import Any

from rollup_node.ipc.bus.timers import aligned_deadline
from rollup_node.ipc.bus.transport import Transport, split
from rollup_node.ipc.wire.codec import Codec, Envelope, UnusableMessage, encode_head
from rollup_node.ipc.wire.sockets import Link

REPEAT_SECONDS = 1.0


class Publisher:
    """The bound side: keeps the last state of each message type and repeats them all."""

    def __init__(self, link: Link, courier: Transport, down: Any) -> None:
        self.links = (link,)
        self._link, self._courier, self._codec = link, courier, Codec(down)
        self._states: dict[type, tuple[Any, list[bytes]]] = {}
        self._sequence = 0
        self._due = 0.0
        self._joined = False

    def set(self, state: Any) -> None:
        """Makes `state` the last of its type and sends it; one that equals the last is not sent again."""
        held = self._states.get(type(state))
        if held is not None and held[0] == state:
            return
        payload = self._codec.encode(state)
        self._sequence += 1
        me = self._courier.me
        frames = [encode_head(Envelope(me.row, me.incarnation, self._sequence, 0, None)), payload]
        self._states[type(state)] = (state, frames)
        self._link.send(frames)

    def drain(self) -> bool:
        """Somebody has subscribed: sends all states at the next tick."""
        return self._link.drain(self._on_subscription)

    def _on_subscription(self, _frames: list[bytes]) -> None:
        self._joined = True

    def tick(self, now: float) -> float:
        """Repeats the states when it is time."""
        if now >= self._due or self._joined:
            self._due, self._joined = aligned_deadline(now, REPEAT_SECONDS), False
            for _, frames in self._states.values():
                self._link.send(frames)
        return self._due


class Subscriber:
    """The connected side: hands on only states newer than the last of their type. `last_seen` is the monotonic time of
    the last message, repeated ones too; None before the first."""

    def __init__(
        self, name: str, link: Link, courier: Transport, server: int, down: Any, handler: Callable[[Any], None]
    ) -> None:
        self.links = (link,)
        self._name, self._link, self._courier, self._server = name, link, courier, server
        self._codec, self._handler = Codec(down), handler
        self._last: dict[type, tuple[int, int]] = {}
        self.last_seen: float | None = None

    def drain(self) -> bool:
        """Handles what has come in."""
        return self._link.drain(self._take)

    def tick(self, now: float) -> float:
        """Has nothing of its own to do."""
        return now + 60.0

    def _take(self, frames: list[bytes]) -> None:
        try:
            peer, sequence, state = self._courier.open(*split(frames), self._codec, (self._server,))
        except UnusableMessage as problem:
            self._courier.count(self._name, problem)
            return
        self.last_seen = time.monotonic()
        age = (peer.incarnation, sequence)
        if age > self._last.get(type(state), (0, 0)):
            self._last[type(state)] = age
            self._handler(state)
