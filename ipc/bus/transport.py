"""What all channels of one process share: who it is, who lives, and how payloads get into and out of envelopes."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rollup_node.ipc.shared_memory.arena import Arena, Descriptor
from rollup_node.ipc.shared_memory.liveness import LivenessTable
from rollup_node.ipc.wire.codec import (
    Codec,
    Envelope,
    Head,
    MessageRejected,
    PayloadLost,
    StaleMessage,
    UnusableMessage,
    decode_head,
    encode_head,
)
from rollup_node.ipc.wire.process_id import ProcessId, process_id_of
from rollup_node.ipc.wire.sockets import Link

INLINE_LIMIT = 64 * 1024

COUNTERS = (
    "messages_refused",
    "messages_stale",
    "messages_void",
    "arena_full_inline",
    "sends_failed",
    "tasks_reissued",
    "task_duplicates",
    "tasks_poisoned",
)


class Received(NamedTuple):
    """A message with its sender and its envelope's number."""

    peer: ProcessId
    number: int
    message: Any


def split(frames: Sequence[bytes]) -> tuple[Head, bytes]:
    """The envelope and the payload of a message; MessageRejected when it does not have these two frames."""
    if len(frames) != 2:
        raise MessageRejected(f"{len(frames)} frames instead of 2")
    return decode_head(frames[0]), frames[1]


def split_routed(frames: Sequence[bytes]) -> tuple[Head, bytes]:
    """The same for what a ROUTER got: its first frame must name the sender that the envelope names."""
    head, payload = split(frames[1:])
    if process_id_of(frames[0]) != (head.row, head.incarnation):
        raise MessageRejected(
            f"the sender's name {frames[0].hex()} is not that of row {head.row}, which its envelope gives"
        )
    return head, payload


class Transport:
    """Puts large payloads into this row's arena, fetches others' from theirs, and counts what goes wrong."""

    def __init__(self, me: ProcessId, board: LivenessTable, arenas: Mapping[int, Arena]) -> None:
        self.me = me
        self.board = board
        self.counters = Counter(dict.fromkeys(COUNTERS, 0))
        self.last_refusal = ""
        self._arenas = arenas
        self._readers: dict[int, int] = {}
        if me.row in arenas:
            arenas[me.row].take_over(me.incarnation)

    def post(
        self, link: Link, route: Sequence[bytes], reader: int, payload: bytes, number: int = 0, attempt: int = 0
    ) -> bool:
        """Sends `payload` to the process in row `reader`; False when it did not go out."""
        descriptor = self._store(payload, reader)
        head = encode_head(Envelope(self.me.row, self.me.incarnation, number, attempt, descriptor))
        if link.send([*route, head, payload if descriptor is None else b""]):
            return True
        if descriptor is not None:
            self._arenas[self.me.row].withdraw(descriptor, reader)
        self.counters["sends_failed"] += 1
        return False

    def _store(self, payload: bytes, reader: int) -> Descriptor | None:
        if len(payload) <= INLINE_LIMIT or self.me.row not in self._arenas:
            return None
        self._notice(reader)
        descriptor = self._arenas[self.me.row].put(payload, (reader,))
        if descriptor is None:
            self.counters["arena_full_inline"] += 1
        return descriptor

    def release_dead_readers(self) -> None:
        """Takes back what readers held that the board shows to have been replaced."""
        for row in self._readers:
            self._notice(row)

    def _notice(self, reader: int) -> None:
        living = self.board.incarnation(reader)
        if self._readers.get(reader, living) != living:
            self._arenas[self.me.row].reader_died(reader)
        self._readers[reader] = living

    def check_sender(self, head: Head, rows: Sequence[int]) -> ProcessId:
        """Who sent it; MessageRejected when it is none of `rows`, StaleMessage when it has been replaced since."""
        if head.row not in rows:
            raise MessageRejected(f"row {head.row} does not speak on this channel")
        living = self.board.incarnation(head.row)
        if head.incarnation > living:
            raise MessageRejected(f"row {head.row} has no incarnation {head.incarnation} yet")
        if head.incarnation < living:
            raise StaleMessage(f"row {head.row} incarnation {head.incarnation}")
        return ProcessId(head.row, head.incarnation)

    def open(self, head: Head, payload: bytes, codec: Codec, senders: Sequence[int]) -> Received:
        """The message of an envelope; raises UnusableMessage when it is not to be taken."""
        if not isinstance(head, Envelope):
            raise MessageRejected(f"a {type(head).__name__} on a channel of messages")
        peer = self.check_sender(head, senders)
        return Received(peer, head.number, codec.decode(self.fetch(head, payload)))

    def fetch(self, envelope: Envelope, payload: bytes) -> bytes:
        """The payload itself, wherever it lies; PayloadLost when it is gone."""
        if envelope.descriptor is None:
            return payload
        arena = self._arenas.get(envelope.row)
        if arena is None:
            raise MessageRejected(f"row {envelope.row} has no arena")
        data = arena.get(envelope.descriptor)
        arena.ack(self.me.row, envelope.descriptor)
        if data is None:
            raise PayloadLost(f"from row {envelope.row}")
        return data

    def count(self, channel: str, problem: UnusableMessage) -> None:
        """Notes a message that was not taken."""
        self.counters[problem.counter] += 1
        if isinstance(problem, MessageRejected):
            self.last_refusal = f"{channel}: {problem}"
