"""Hostile peers: no crash, bounded memory, and honest peers are served all the time."""

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from rollup_node.stages.p2p.addresses.peer_id import NetworkIdentity
from rollup_node.stages.p2p.config import ResourceLimits
from rollup_node.stages.p2p.encoding import varint
from rollup_node.stages.p2p.encoding.multistream import HEADER, encode_line
from rollup_node.stages.p2p.gating import connections
from rollup_node.stages.p2p.host import identify
from rollup_node.stages.p2p.host.io import streams as transport_streams
from rollup_node.stages.p2p.host.io.host_api import PeerIdentified
from rollup_node.stages.p2p.host.io.streams import Stream
from rollup_node.stages.p2p.transport.yamux import INITIAL_WINDOW
from tests.support.p2p.hosts import ECHO, RecordingHost, echo_through, running_host
from tests.support.p2p.raw import (
    DATA,
    GO_AWAY,
    PING,
    RST,
    SYN,
    WINDOW_UPDATE,
    RawPeer,
    frame,
    proposal,
    raw_peer,
    tcp_connection,
)
from tests.support.timing.conditions import until

MULTISTREAM_HEADER = encode_line(HEADER)
STRANGER = NetworkIdentity(b"\x63" * 32).peer_id
NOISE = MULTISTREAM_HEADER + encode_line("/noise")
GARBAGE = [
    b"",
    b"\x00",
    os.urandom(300),
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + os.urandom(100),
    MULTISTREAM_HEADER,
    MULTISTREAM_HEADER[:7],
    MULTISTREAM_HEADER + b"\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
    MULTISTREAM_HEADER + encode_line("/tls/1.0.0") * 100,
    NOISE,
    NOISE + b"\xff\xff" + os.urandom(70_000),
    NOISE + b"\x00\x00" * 50,
    NOISE + b"\x00\x20" + bytes(32),
    NOISE + b"\x00\x20" + os.urandom(32) + b"\x01\x00" + os.urandom(256),
    NOISE + b"\x00\x20" + os.urandom(32) + b"\x01\x00" + os.urandom(20),
]


@asynccontextmanager
async def guarded(**options: object) -> AsyncIterator[tuple[RecordingHost, RecordingHost]]:
    """Yield the host under attack and an honest peer, which is served before and after; no state may be left."""
    async with running_host(1, **options) as ours, running_host(2) as good:
        await good.connect(ours.peer_id, ours.addresses)
        await good.wait_for(PeerIdentified)
        yield ours, good
        assert await echo_through(good, ours.peer_id, b"served") == b"served"
        async with running_host(3) as late:
            await late.connect(ours.peer_id, ours.addresses)
            assert await echo_through(late, ours.peer_id, b"served too") == b"served too"
    await until(lambda: len(asyncio.all_tasks()) == 1, 5)


def unread(host: RecordingHost) -> int:
    """Bytes that the host holds for the hostile peer."""
    return sum(link.unread_bytes for link in host.connections_to_peer(STRANGER))


async def test_garbage_connections(capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    async def one(port: int, garbage: bytes) -> None:
        with contextlib.suppress(ConnectionError, TimeoutError):
            async with tcp_connection(port) as (reader, writer), asyncio.timeout(0.2):
                writer.write(garbage)
                await reader.read(1)
                await reader.read(1 << 16)

    async with guarded(limits=ResourceLimits(half_open=8)) as (ours, good):
        wave = asyncio.gather(*(one(ours.port, garbage) for garbage in 2 * GARBAGE))
        assert await echo_through(good, ours.peer_id, bytes(100_000)) == bytes(100_000)
        await wave
        assert len(ours.pending_handshakes) <= 8
        await until(lambda: len(ours.pending_handshakes) == 0)
        assert ours.peers() == [good.peer_id]
    assert capsys.readouterr().err == "" and caplog.records == [], "nothing is logged, by asyncio neither"


async def test_slow_handshakes_time_out_and_do_not_block_others() -> None:
    async def drip(port: int, stop: asyncio.Event) -> bool:
        """Send a valid opening byte by byte; returns whether it was disconnected."""
        try:
            async with tcp_connection(port) as (reader, writer):
                for byte in NOISE + b"\x00\x20" + bytes(32):
                    writer.write(bytes([byte]))
                    if stop.is_set() or (reader.at_eof()):
                        return True
                    await asyncio.sleep(0.05)
                return await reader.read() is not None
        except ConnectionError:
            return True

    async with guarded(limits=ResourceLimits(half_open=20), handshake_timeout=1.0) as (ours, _):
        stop = asyncio.Event()
        slow = [asyncio.create_task(drip(ours.port, stop)) for _ in range(60)]
        await until(lambda: len(ours.pending_handshakes) == 20)
        for number in range(4, 8):
            async with running_host(number) as newcomer:
                await newcomer.connect(ours.peer_id, ours.addresses)
                assert await echo_through(newcomer, ours.peer_id, b"in") == b"in"
        await until(lambda: len(ours.pending_handshakes) == 0)
        stop.set()
        assert all(await asyncio.gather(*slow))


async def test_violations_close_the_connection() -> None:
    """Of yamux, and bytes that are not encrypted."""
    async with guarded() as (ours, good):
        for is_encrypted, violation in (
            (True, b"GET / HTTP/1.1\r\n\r\n"),
            (True, frame(GO_AWAY, 0, 0, 0)),
            (False, b"\x00\x20" + os.urandom(32)),
        ):
            async with raw_peer(ours.port) as peer:
                await until(lambda: len(ours.peers()) == 2)
                await (peer.send if is_encrypted else peer.send_raw)(violation)
                assert await peer.is_disconnected()
            await until(lambda: ours.peers() == [good.peer_id])


async def hold(_: object) -> None:
    await asyncio.sleep(30)


async def test_the_window_bounds_unread_data() -> None:
    async with guarded() as (ours, _):
        ours.set_stream_handler("/hold/1", hold)
        async with raw_peer(ours.port) as peer:
            await peer.send(proposal(7, "/hold/1"))
            for size in (INITIAL_WINDOW // 2, INITIAL_WINDOW // 2 - 100):
                await peer.send(frame(DATA, 0, 7, size, bytes(size)))
            await until(lambda: unread(ours) == INITIAL_WINDOW - 100)
            assert not await peer.is_disconnected(0.2)
            await peer.send(frame(DATA, 0, 7, INITIAL_WINDOW, bytes(INITIAL_WINDOW)))
            assert await peer.is_disconnected()


async def test_unread_bytes_over_all_streams_are_bounded() -> None:
    """When too much is held for one connection, its socket is no longer read."""
    async with guarded(limits=ResourceLimits(unread_bytes=1 << 20)) as (ours, _):
        ours.set_stream_handler("/hold/1", hold)
        async with raw_peer(ours.port) as peer:
            sending = asyncio.create_task(_fill(peer, streams=60))
            await until(lambda: unread(ours) > 1 << 20)
            await asyncio.sleep(0.3)
            assert unread(ours) < (1 << 20) + 2 * INITIAL_WINDOW + (1 << 16)
            assert not sending.done()
            sending.cancel()


async def _fill(peer: RawPeer, streams: int) -> None:
    for number in range(1, 2 * streams, 2):
        await peer.send(proposal(number, "/hold/1"))
        await peer.send(frame(DATA, 0, number, INITIAL_WINDOW - 100, bytes(INITIAL_WINDOW - 100)))


async def test_streams_beyond_the_limit_are_reset() -> None:
    async with guarded(limits=ResourceLimits(inbound_streams=10)) as (ours, _), raw_peer(ours.port) as peer:
        for number in range(101, 301, 2):
            await peer.send(frame(WINDOW_UPDATE, SYN, number, 0))
        answer = await peer.read_for(0.5)
        assert answer.count(frame(WINDOW_UPDATE, 2, 0, 0)[:4]) == 10
        assert sum(answer.count(frame(WINDOW_UPDATE, 8, number, 0)) for number in range(101, 301, 2)) == 90


async def test_streams_without_a_protocol_time_out() -> None:
    async with guarded(handshake_timeout=0.5) as (ours, _), raw_peer(ours.port) as peer:
        await peer.send(frame(WINDOW_UPDATE, SYN, 101, 0))
        await peer.send(frame(WINDOW_UPDATE, SYN, 103, 0) + frame(DATA, 0, 103, 3, b"\x01\x02\x03"))
        await peer.send(proposal(105, "/unknown/1"))
        resets = [frame(WINDOW_UPDATE, 8, number, 0) for number in (101, 103, 105)]
        await peer.read_until(lambda answer: all(reset in answer for reset in resets))
        assert not any(number > 100 for number in ours.connections_to_peer(STRANGER)[0].streams)


async def test_floods_of_small_frames_and_of_tiny_messages_close_the_connection() -> None:
    async with guarded() as (ours, _):
        async with raw_peer(ours.port) as peer:
            await until(lambda: STRANGER in ours.peers())
            await peer.send_each(bytes([byte]) for byte in frame(PING, 2, 0, 0) * 1200)
            assert await peer.is_disconnected()
        for flood in (
            b"".join(frame(WINDOW_UPDATE, SYN, number, 0) for number in range(101, 50_101, 2)),
            frame(PING, SYN, 0, 7) * 20_000,
            proposal(7, ECHO) + frame(DATA, 0, 7, 1, b"x") * 20_000,
        ):
            async with raw_peer(ours.port) as peer:
                await peer.send(flood)
                assert await peer.is_disconnected()


async def test_window_is_acknowledged_once() -> None:
    async with guarded() as (ours, _), raw_peer(ours.port) as peer:
        lines = encode_line(HEADER) + encode_line(ECHO)
        size = INITIAL_WINDOW - len(lines)
        await peer.send(frame(DATA, SYN, 7, INITIAL_WINDOW, lines + bytes(size)))
        await until(lambda: STRANGER in ours.peers() and 7 in ours.connections_to_peer(STRANGER)[0].streams)
        stream = ours.connections_to_peer(STRANGER)[0].session.streams[7]
        # The handler takes the bytes in pieces, and acknowledges each after it has taken it.
        await until(lambda: stream.receive_window + stream.unacknowledged == INITIAL_WINDOW)
        assert unread(ours) == 0


async def test_an_unfinished_message_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport_streams, "MESSAGE_TIMEOUT", 0.3)
    async with guarded() as (ours, _):

        async def listen(stream: Stream) -> None:
            assert await stream.read_message(1000) == b"all"
            await stream.read_message(1000)

        ours.set_stream_handler("/listen/1", listen)
        async with raw_peer(ours.port) as peer:
            await peer.send(proposal(7, "/listen/1") + proposal(9, "/listen/1"))
            await peer.send(frame(DATA, 0, 7, 104, varint.encode(3) + b"all" + varint.encode(200) + bytes(98)))
            await peer.send(frame(DATA, 0, 9, 4, varint.encode(3) + b"all"))
            answer = await peer.read_for(1.0)
            assert frame(WINDOW_UPDATE, 8, 7, 0) in answer
            assert frame(WINDOW_UPDATE, 8, 9, 0) not in answer, "an idle stream stays open"


@pytest.mark.parametrize(
    "body",
    [
        varint.encode(identify.MAX_MESSAGE_BYTES + 1),
        b"\xff" * 20,
        varint.encode(5) + b"\xff" * 5,
        varint.encode(100) + b"x",
        varint.encode(37) + identify.encode(NetworkIdentity(b"\x05" * 32).public_key.encode(), [], [], None, "")[:37],
    ],
    ids=["too long", "no length", "no protobuf", "cut short", "another's key"],
)
async def test_invalid_pushes_change_nothing(body: bytes) -> None:
    async with guarded() as (ours, _), raw_peer(ours.port) as peer:
        await peer.send(proposal(7, identify.PUSH_PROTOCOL) + frame(DATA, 4, 7, len(body), body))
        await peer.read_until(lambda answer: frame(WINDOW_UPDATE, 8, 7, 0) in answer)
        info = ours.connection(STRANGER)
        assert info is not None and info.identify is None


async def test_frequent_pushes_are_rejected() -> None:
    async with guarded() as (ours, _), raw_peer(ours.port) as peer:
        body = identify.encode(NetworkIdentity(b"\x63" * 32).public_key.encode(), [], ["/a/1"], None, "raw")
        body = varint.encode(len(body)) + body
        for number in range(7, 27, 2):
            await peer.send(proposal(number, identify.PUSH_PROTOCOL) + frame(DATA, 4, number, len(body), body))
        answer = await peer.read_for(0.5)
        assert sum(frame(WINDOW_UPDATE, 8, number, 0) in answer for number in range(7, 27, 2)) == 9
        pushed = [
            event
            for event in ours.events
            if isinstance(event, PeerIdentified) and event.identify.agent_version == "raw"
        ]
        assert len(pushed) == 1


async def test_a_peer_that_holds_more_than_its_share_loses_its_streams_and_then_its_connection() -> None:
    async with guarded(limits=ResourceLimits(held_bytes=300_000)) as (ours, good):
        finished: list[bytes | None] = []

        async def listen(stream: Stream) -> None:
            finished.append(await stream.read_message(1 << 20))

        ours.set_stream_handler("/listen/1", listen)
        _, small = await good.open_stream(ours.peer_id, ["/listen/1"])
        await small.write(varint.encode(50_001) + bytes(50_000))
        async with raw_peer(ours.port) as peer:
            for number in (7, 9, 11, 13):
                stalled = varint.encode(1 << 20) + bytes(200_000)
                await peer.send(proposal(number, "/listen/1") + frame(DATA, 0, number, len(stalled), stalled))
            assert await peer.is_disconnected()
        await until(lambda: ours.held.total == 50_000)
        await small.write(b"x")
        await until(lambda: finished == [bytes(50_000) + b"x"])
        assert "too many bytes held" in {closed.reason for closed in ours.closed_connections}
        assert b'p2p_streams_dropped_total{protocol="/listen/1"} 3.0' in ours.meter.text()


async def test_streams_opened_too_fast_are_reset() -> None:
    async with guarded(limits=ResourceLimits(inbound_streams=1000)) as (ours, _), raw_peer(ours.port) as peer:
        for number in range(101, 701, 2):
            await peer.send(proposal(number, "/unknown/1"))
        answer = await peer.read_for(0.5)
        refused = answer.count(b"\x03na\n")
        assert 64 <= refused < 150, "the others are reset before their protocol is looked at"


async def test_handlers_of_reset_streams_are_bounded() -> None:
    async with guarded(limits=ResourceLimits(inbound_streams=10)) as (ours, _):
        running = 0

        async def hold(_: Stream) -> None:
            nonlocal running
            running += 1
            await asyncio.sleep(30)

        ours.set_stream_handler("/hold/1", hold)
        async with raw_peer(ours.port) as peer:
            for number in range(101, 201, 2):
                await peer.send(proposal(number, "/hold/1") + frame(WINDOW_UPDATE, RST, number, 0))
            await peer.send(frame(PING, SYN, 0, 7))
            await peer.read_until(lambda answer: frame(PING, 2, 0, 7) in answer)
            assert running == 10


async def test_a_peer_whose_bytes_take_too_much_work_is_read_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MAX_SAVED", 0.0)
    monkeypatch.setattr(connections, "TOTAL_SHARE", 0.002)
    async with running_host(1) as ours, raw_peer(ours.port) as peer:
        await until(lambda: STRANGER in ours.peers())
        began = time.monotonic()
        await peer.send(frame(PING, SYN, 0, 1) * 3000)
        await peer.send(frame(PING, SYN, 0, 2))
        await peer.read_until(lambda answered: frame(PING, 2, 0, 2) in answered)
        assert time.monotonic() - began > 0.2, "work of more than 0.4 ms at a share of 0.002"
        assert STRANGER in ours.peers()
