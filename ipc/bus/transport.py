"""Messages in and out of one process: envelopes, payloads in arenas, and the liveness of the other processes."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rollup_node.ipc.shared_memory.arena import Arena, Descriptor
from rollup_node.ipc.shared_memory.liveness import LivenessTable
from rollup_node.ipc.wire import codec as wire
from rollup_node.ipc.wire.process_id import ProcessId, process_id_of
from rollup_node.ipc.wire.sockets import ChannelSocket

INLINE_LIMIT = 64 * 1024
"""Longer payloads, in bytes, travel through the arena."""

COUNTERS = (
    "messages_refused",
    "messages_stale",
    "messages_void",
    "arena_full_inline",
    "sends_failed",
    "tasks_reissued",
    "task_duplicates",
    "tasks_poisoned",
    "sockets_bound_again",
    "binds_failed",
)


class ReceivedMessage(NamedTuple):
    """A message with its sender and the number in its envelope."""

    sender: ProcessId
    number: int
    message: Any


def split_frames(frames: Sequence[bytes]) -> tuple[wire.MessageHeader, bytes]:
    """Return the header and the payload of a message. Raises MessageRejected when it is malformed."""
    if len(frames) != 2:
        raise wire.MessageRejected(f"{len(frames)} frames instead of 2")
    return wire.decode_header(frames[0]), frames[1]


def split_routed_frames(frames: Sequence[bytes]) -> tuple[wire.MessageHeader, bytes]:
    """Return the same for a ROUTER socket, whose first frame is the routing id. Raises MessageRejected."""
    header, payload = split_frames(frames[1:])
    if process_id_of(frames[0]) != (header.slot, header.incarnation):
        raise wire.MessageRejected(f"the header names slot {header.slot}, the routing id is {frames[0].hex()}")
    return header, payload


class Transport:
    """Sends and receives the messages of one process.

    Large payloads go into its own arena and come from the arenas of others; `counters` counts what fails. Creating
    it takes over the arena of the process's slot."""

    def __init__(self, process_id: ProcessId, liveness: LivenessTable, arenas: Mapping[int, Arena]) -> None:
        self.process_id, self.liveness = process_id, liveness
        self.counters = Counter(dict.fromkeys(COUNTERS, 0))
        self.last_rejection = ""
        self.arenas = arenas
        self._readers: dict[int, int] = {}
        if process_id.slot in arenas:
            arenas[process_id.slot].take_over(process_id.incarnation)

    def send(
        self,
        socket: ChannelSocket,
        route: Sequence[bytes],
        receiver: int,
        payload: bytes,
        number: int = 0,
        attempt: int = 0,
    ) -> bool:
        """Send `payload` to the process in slot `receiver`, with `route` before the header; False when it failed."""
        descriptor = self._store(payload, receiver)
        header = wire.encode_header(wire.Envelope(*self.process_id, number, attempt, descriptor))
        if socket.send([*route, header, payload if descriptor is None else b""]):
            return True
        if descriptor is not None:
            self.arenas[self.process_id.slot].withdraw(descriptor)
        self.counters["sends_failed"] += 1
        return False

    def _store(self, payload: bytes, reader: int) -> Descriptor | None:
        if len(payload) <= INLINE_LIMIT or self.process_id.slot not in self.arenas:
            return None
        self._check_reader(reader)
        descriptor = self.arenas[self.process_id.slot].put(payload, reader)
        if descriptor is None:
            self.counters["arena_full_inline"] += 1
        return descriptor

    def release_dead_readers(self) -> None:
        """Free the arena chunks held by readers that have been replaced since."""
        for slot in self._readers:
            self._check_reader(slot)

    def _check_reader(self, reader: int) -> None:
        incarnation = self.liveness.incarnation(reader)
        if self._readers.get(reader, incarnation) != incarnation:
            self.arenas[self.process_id.slot].reader_died(reader)
        self._readers[reader] = incarnation

    def check_sender(self, header: wire.MessageHeader, senders: Sequence[int]) -> ProcessId:
        """Return the sender. Raises MessageRejected for a slot not in `senders`, StaleMessage for an old process."""
        if header.slot not in senders:
            raise wire.MessageRejected(f"slot {header.slot} may not send on this channel")
        incarnation = self.liveness.incarnation(header.slot)
        if header.incarnation > incarnation:
            raise wire.MessageRejected(f"slot {header.slot} has not reached incarnation {header.incarnation}")
        if header.incarnation < incarnation:
            raise wire.StaleMessage(f"slot {header.slot} incarnation {header.incarnation}")
        return ProcessId(header.slot, header.incarnation)

    def receive(
        self, header: wire.MessageHeader, payload: bytes, codec: wire.Codec, senders: Sequence[int]
    ) -> ReceivedMessage:
        """Return the message behind a header. Raises UnusableMessage when it has to be dropped."""
        if not isinstance(header, wire.Envelope):
            raise wire.MessageRejected(f"unexpected {type(header).__name__}")
        sender = self.check_sender(header, senders)
        return ReceivedMessage(sender, header.number, codec.decode(self.payload(header, payload)))

    def payload(self, envelope: wire.Envelope, inline: bytes) -> bytes:
        """Return the payload of an envelope: the second frame `inline`, or a copy from the sender's arena.

        Raises PayloadLost when the arena no longer has it, MessageRejected when there is no such arena."""
        if envelope.descriptor is None:
            return inline
        arena = self.arenas.get(envelope.slot)
        if arena is None:
            raise wire.MessageRejected(f"slot {envelope.slot} has no arena")
        data = arena.get(envelope.descriptor)
        arena.ack(self.process_id.slot, envelope.descriptor)
        if data is None:
            raise wire.PayloadLost(f"from slot {envelope.slot}")
        return data

    def count_dropped(self, channel: str, error: wire.UnusableMessage) -> None:
        self.counters[error.counter] += 1
        if isinstance(error, wire.MessageRejected):
            self.last_rejection = f"{channel}: {error}"
