"""STATUS and REQUEST channels.

On a STATUS channel each message is the whole state of its type, sent when it changes. (incarnation, number) orders
them, and the liveness table has the number of the last. A subscriber that lacks a state subscribes again and gets all:
a lost one costs two seconds, and nothing is sent while nothing changes. A process publishes on one channel. On a
REQUEST channel a server responds to clients. A request is for the incarnation of the server that the liveness table has
when it is sent: one that waits while the server is down is dropped by the next, since its client may have given up."""

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from rollup_node.ipc.bus.timers import aligned_deadline
from rollup_node.ipc.bus.transport import ReceivedMessage, Transport, split_frames, split_routed_frames
from rollup_node.ipc.wire.codec import Envelope, StaleMessage, UnusableMessage, codec_of, encode_header
from rollup_node.ipc.wire.process_id import ProcessId
from rollup_node.ipc.wire.sockets import ChannelSocket

LOOK_SECONDS = 1.0
"""Between two looks for states that are missing."""
MIN_SECONDS = 0.05
"""Between two states of a type that change without a pause: a node that catches up changes its heads hundreds of times
a second, and each message costs its readers more than they gain from it."""
_NO_TIMER = 60.0


class Publisher:
    """The bound side: keeps the last state of each message type, and sends all to who subscribes.

    A state that follows its predecessor within MIN_SECONDS is sent at their end, unless it is urgent or another has
    replaced it by then. `wake` has `tick` called soon; `on_send` gets each state when it is sent for the first time."""

    def __init__(
        self, socket: ChannelSocket, transport: Transport, down: Any, wake: Callable[[], None] = lambda: None
    ) -> None:
        self.sockets = (socket,)
        self._socket, self._transport, self._codec, self._wake = socket, transport, codec_of(down), wake
        self._states: dict[type, Any] = {}
        self._sent: dict[type, tuple[float, list[bytes]]] = {}
        self._waiting: dict[type, float] = {}
        self._sequence = 0
        self._subscribed = False
        self.on_send: Callable[[Any], object] | None = None

    def set(self, state: Any, urgent: bool = False) -> None:
        """Make `state` the last of its type and send it, unless it equals the one before."""
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
        # First the table: a reader that looks between the two waits for the state, and does not miss that it is lost.
        self._transport.liveness.set_states(self._transport.process_id.slot, self._sequence)
        self._socket.send(frames)
        if self.on_send is not None:
            self.on_send(self._states[kind])

    def receive(self) -> bool:
        """Handle subscriptions: all states are sent at the next tick; True when there may be more."""
        return self._socket.receive(self._on_subscription)

    def _on_subscription(self, _frames: list[bytes]) -> None:
        self._subscribed = True

    def tick(self, now: float) -> float:
        """Send the states that wait, and all after a subscription; returns the time of the next that waits."""
        for kind in [kind for kind, due in self._waiting.items() if now >= due]:
            self._send(kind, now)
        if self._subscribed:
            self._subscribed = False
            for _, frames in self._sent.values():
                self._socket.send(frames)
        return min(self._waiting.values(), default=now + _NO_TIMER)


class _Version(NamedTuple):
    """Orders the states of one publisher."""

    incarnation: int
    number: int


class _Receiver:
    """A side of a channel that receives messages from the processes of the slots `peers`, and has no timer."""

    _split = staticmethod(split_frames)

    def __init__(
        self,
        name: str,
        socket: ChannelSocket,
        transport: Transport,
        peers: Sequence[int],
        received: Any,
        handler: Callable[..., object],
        sent: Any = None,
    ) -> None:
        self.sockets = (socket,)
        self._name, self._socket, self._transport, self._peers = name, socket, transport, peers
        self._received, self._handler, self._sent = codec_of(received), handler, codec_of(sent)

    def receive(self) -> bool:
        """Handle waiting messages; True when there may be more."""
        return self._socket.receive(self._on_message)

    def tick(self, now: float) -> float:
        """Return the time of the next call."""
        return now + _NO_TIMER

    def _on_message(self, frames: list[bytes]) -> None:
        try:
            received = self._transport.receive(*self._split(frames), self._received, self._peers)
        except UnusableMessage as error:
            self._transport.count_dropped(self._name, error)
            return
        self._accept(received)

    def _accept(self, received: ReceivedMessage) -> None:
        self._handler(received.message)


class Subscriber(_Receiver):
    """The connected side: its handler gets only states newer than the last of their type [LIF32]."""

    def __init__(self, *channel: Any) -> None:
        super().__init__(*channel)
        self._last: dict[type, _Version] = {}
        self._newest = self._looked = _Version(0, 0)
        self._lacks, self._due = False, 0.0
        self._seen: float | None = None

    @property
    def last_seen(self) -> float | None:
        """Monotonic time of the publisher's last sign of life without a state missing here; None before the first.

        A sign is a state that arrives, or a heartbeat while the last one has arrived."""
        if self._seen is not None and self._newest == self._published():
            self._seen = max(self._seen, self._transport.liveness.last_beat_ns(self._peers[0]) / 1e9)
        return self._seen

    def tick(self, now: float) -> float:
        """Subscribe again where a state is missing that was sent before the last look; the time of the next look."""
        if now >= self._due:
            self._due = aligned_deadline(now, LOOK_SECONDS)
            if self._lacks or self._newest < self._looked:
                self._lacks = False
                self._socket.subscribe_again()
            published = self._published()
            self._looked = published if published.number else self._newest
        return self._due

    def _published(self) -> _Version:
        liveness, slot = self._transport.liveness, self._peers[0]
        return _Version(liveness.incarnation(slot), liveness.states(slot))

    def _accept(self, received: ReceivedMessage) -> None:
        sender, number, state = received
        self._seen = time.monotonic()
        version, before = _Version(sender.incarnation, number), self._newest
        # Not the next one: another of some type was lost, or these are the states of a publisher met just now.
        self._lacks |= number > (before.number if before.incarnation == version.incarnation else 0) + 1
        self._newest = max(before, version)
        if version > self._last.get(type(state), (0, 0)):
            self._last[type(state)] = version
            self._handler(state)


class Server(_Receiver):
    """The bound side of a REQUEST channel, whose clients repeat requests; `handler` gets each with its sender."""

    _split = staticmethod(split_routed_frames)

    def send(self, client: ProcessId, message: Any) -> bool:
        """Respond without waiting; False when it was not sent: the client is dead, or its queue is full."""
        payload = self._sent.encode(message)
        if self._transport.liveness.incarnation(client.slot) != client.incarnation:
            self._transport.counters["sends_failed"] += 1
            return False
        return self._transport.send(self._socket, [client.routing_id()], client.slot, payload)

    def _accept(self, received: ReceivedMessage) -> None:
        # Before its first start there was no other that a request could be for.
        if received.number not in (0, self._transport.process_id.incarnation):
            self._transport.count_dropped(self._name, StaleMessage(f"for incarnation {received.number}"))
        else:
            self._handler(received.sender, received.message)


class Client(_Receiver):
    """The connected side of a REQUEST channel; `handler` gets each response. Requests are not repeated by it.

    `on_restart` is called when the server has been started again: requests without an answer are lost."""

    def __init__(self, *channel: Any) -> None:
        super().__init__(*channel)
        self.on_restart: Callable[[], object] = lambda: None
        self._incarnation, self._due = self._transport.liveness.incarnation(self._peers[0]), 0.0

    def tick(self, now: float) -> float:
        """Notice a new server; returns the time of the next look."""
        if now >= self._due:
            self._due = aligned_deadline(now, LOOK_SECONDS)
            known, self._incarnation = self._incarnation, self._transport.liveness.incarnation(self._peers[0])
            if 0 < known < self._incarnation:
                self.on_restart()
        return self._due

    def send(self, message: Any) -> bool:
        """Send a request without waiting; False when it was not sent because the queue to the server is full."""
        server = self._peers[0]
        incarnation = self._transport.liveness.incarnation(server)
        return self._transport.send(self._socket, (), server, self._sent.encode(message), incarnation)
