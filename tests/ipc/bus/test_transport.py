"""Envelopes, senders and payloads of one process."""

from collections.abc import Iterator

import pytest

from rollup_node.ipc.bus.transport import INLINE_LIMIT, Transport, split_routed_frames
from rollup_node.ipc.shared_memory.arena import Arena
from rollup_node.ipc.shared_memory.liveness import LivenessTable
from rollup_node.ipc.wire.codec import (
    Codec,
    Envelope,
    MessageRejected,
    PayloadLost,
    StaleMessage,
    TaskRejected,
    UnusableMessage,
    encode_header,
)
from rollup_node.ipc.wire.process_id import ProcessId
from tests.ipc.messages import EchoRequest
from tests.ipc.recording_socket import RecordingSocket

ME, PEER = ProcessId(0, 1), ProcessId(1, 3)
LARGE = bytes(INLINE_LIMIT + 1)


@pytest.fixture
def memory() -> Iterator[tuple[LivenessTable, dict[int, Arena]]]:
    liveness, arenas = LivenessTable(3), {0: Arena(3, chunks=2), 1: Arena(3, chunks=2)}
    liveness.start(ME.slot, ME.incarnation)
    liveness.start(PEER.slot, PEER.incarnation)
    yield liveness, arenas
    liveness.close()
    for arena in arenas.values():
        arena.close()


@pytest.fixture
def transport(memory: tuple[LivenessTable, dict[int, Arena]]) -> Transport:
    return Transport(ME, *memory)


def envelope(sender: ProcessId = PEER) -> Envelope:
    return Envelope(*sender, 7, 0, None)


def test_a_routed_message_comes_from_the_process_that_its_header_names() -> None:
    header = encode_header(envelope())
    assert split_routed_frames([PEER.routing_id(), header, b"x"]) == (envelope(), b"x")
    for other in (ME.routing_id(), b"stranger"):
        with pytest.raises(MessageRejected, match="the header names slot 1, the routing id is"):
            split_routed_frames([other, header, b"x"])


def test_small_payloads_travel_inline_and_large_ones_in_the_arena(
    transport: Transport, memory: tuple[LivenessTable, dict[int, Arena]]
) -> None:
    socket = RecordingSocket()
    assert transport.send(socket, (), PEER.slot, bytes(INLINE_LIMIT), number=7)
    assert transport.send(socket, (), PEER.slot, LARGE, number=8, attempt=2)
    small, large = socket.headers
    assert small == Envelope(0, 1, 7, 0, None)
    assert isinstance(large, Envelope) and large.descriptor is not None and (large.number, large.attempt) == (8, 2)
    assert [len(frames[1]) for frames in socket.sent] == [INLINE_LIMIT, 0]
    assert Transport(PEER, *memory).payload(large, b"") == LARGE
    transport.arenas[0].reap()
    assert transport.arenas[0].free == 2, "its reader needs it no more"


def test_a_failed_send_frees_its_chunks(transport: Transport) -> None:
    socket = RecordingSocket()
    socket.works = False
    assert not transport.send(socket, (), PEER.slot, LARGE)
    assert transport.counters["sends_failed"] == 1 and transport.arenas[0].free == 2


def test_a_payload_that_is_gone_is_lost(transport: Transport, memory: tuple[LivenessTable, dict[int, Arena]]) -> None:
    socket = RecordingSocket()
    Transport(PEER, *memory).send(socket, (), ME.slot, LARGE)
    header = socket.headers[0]
    assert isinstance(header, Envelope)
    memory[1][PEER.slot].take_over(4)
    with pytest.raises(PayloadLost, match="from slot 1"):
        transport.payload(header, b"")
    with pytest.raises(MessageRejected, match="slot 2 has no arena"):
        transport.payload(Envelope(2, 1, 0, 0, header.descriptor), b"")


def test_only_envelopes_carry_messages(transport: Transport) -> None:
    codec = Codec(EchoRequest)
    received = transport.receive(envelope(), codec.encode(EchoRequest(1)), codec, (1,))
    assert received == (PEER, 7, EchoRequest(1))
    with pytest.raises(MessageRejected, match="unexpected TaskRejected"):
        transport.receive(TaskRejected(*PEER, 1, "no"), b"", codec, (1,))


@pytest.mark.parametrize(
    ("error", "counter", "last"),
    [
        (MessageRejected("malformed"), "messages_refused", "a.b: malformed"),
        (StaleMessage("old"), "messages_stale", ""),
        (PayloadLost("gone"), "messages_void", ""),
    ],
)
def test_dropped_messages_are_counted(transport: Transport, error: UnusableMessage, counter: str, last: str) -> None:
    transport.count_dropped("a.b", error)
    assert transport.counters[counter] == 1 and transport.counters.total() == 1
    assert transport.last_rejection == last
