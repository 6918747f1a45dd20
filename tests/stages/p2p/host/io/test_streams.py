"""Streams between two hosts: negotiation, reading and writing, windows, and resets."""

import asyncio
import os
from functools import partial

import pytest

from rollup_node.stages.p2p.encoding import varint
from rollup_node.stages.p2p.host.io.connection import Connection
from rollup_node.stages.p2p.host.io.host_api import StreamError
from rollup_node.stages.p2p.host.io.streams import Stream
from tests.support.p2p.hosts import ECHO, echo_through, two_hosts
from tests.support.timing.conditions import until


def is_gone(connection: Connection, stream: Stream) -> bool:
    """Whether a connection has removed a stream."""
    return stream not in connection.streams.values()


@pytest.mark.parametrize("early", [True, False])
async def test_streams_carry_any_size_both_ways(early: bool) -> None:
    async with two_hosts(early_muxer=early) as (ours, theirs):
        for size in (0, 1, 65_507, 300_000, 1_500_000):
            data = os.urandom(size)
            assert await echo_through(ours, theirs.peer_id, data) == data
            assert await echo_through(theirs, ours.peer_id, data) == data
        answers = await asyncio.gather(*(echo_through(ours, theirs.peer_id, bytes([n]) * 200_000) for n in range(20)))
        assert answers == [bytes([n]) * 200_000 for n in range(20)]
        links = [*ours.connections_to_peer(theirs.peer_id), *theirs.connections_to_peer(ours.peer_id)]
        await until(lambda: not any(link.streams for link in links))


async def test_the_first_common_protocol_is_negotiated() -> None:
    async with two_hosts() as (ours, theirs):
        protocol, stream = await ours.open_stream(theirs.peer_id, ["/other/1", "/third/1", ECHO])
        assert protocol == stream.protocol == ECHO and stream.peer == theirs.peer_id
        stream.reset()
        with pytest.raises(StreamError, match="does not support /other/1"):
            await ours.open_stream(theirs.peer_id, ["/other/1"])
        with pytest.raises(StreamError, match="is not connected"):
            await ours.open_stream(b"\x00\x01x", [ECHO])


async def test_read_methods() -> None:
    async def send_messages(stream: Stream) -> None:
        await stream.write_message(b"one")
        await stream.write_message(b"")
        await stream.write_message(bytes(70_000))
        await stream.write(b"\x05abc")

    async with two_hosts() as (ours, theirs):
        theirs.set_stream_handler("/messages/1", send_messages)
        _, stream = await ours.open_stream(theirs.peer_id, ["/messages/1"])
        assert await stream.read_message(100) == b"one"
        assert await stream.read_message(100) == b""
        with pytest.raises(StreamError, match="message of 70000 bytes exceeds 100"):
            await stream.read_message(100)
        stream.reset()
        _, stream = await ours.open_stream(theirs.peer_id, ["/messages/1"])
        assert await stream.read_exactly(5) == b"\x03one\x00"
        assert len(await stream.read_message(70_000) or b"") == 70_000
        with pytest.raises(StreamError, match="2 bytes early"):
            await stream.read_message(100)
        assert await stream.read() == b""
        assert await stream.read_message(100) is None
        stream.close()
        _, stream = await ours.open_stream(theirs.peer_id, ["/messages/1"])
        with pytest.raises(StreamError, match="more than 1000 bytes"):
            await stream.read_all(1000)
        stream.reset()


async def test_resets_reach_readers_and_writers() -> None:
    held: list[Stream] = []
    released = asyncio.Event()

    async def hold(stream: Stream) -> None:
        held.append(stream)
        await released.wait()

    async with two_hosts() as (ours, theirs):
        theirs.set_stream_handler("/hold/1", hold)
        _, stream = await ours.open_stream(theirs.peer_id, ["/hold/1"])
        reading = asyncio.create_task(stream.read())
        writing = asyncio.create_task(stream.write(bytes(1_000_000)))
        session = ours.connections_to_peer(theirs.peer_id)[0].session
        await until(lambda: held and any(not session.send_window(number) for number in session.streams))
        assert not reading.done() and not writing.done()
        held[0].reset()
        for task in (reading, writing):
            with pytest.raises(StreamError, match="reset by the peer"):
                await task
        released.set()


async def test_data_before_a_reset_can_be_read() -> None:
    async def answer_and_reset(stream: Stream) -> None:
        await stream.write(b"answer")
        if await stream.read() == b"end":
            stream.close()
        stream.reset()

    async with two_hosts() as (ours, theirs):
        theirs.set_stream_handler("/answer/1", answer_and_reset)
        for message in (b"end", b"cut"):
            _, stream = await ours.open_stream(theirs.peer_id, ["/answer/1"])
            await stream.write(message)
            connection = ours.connections_to_peer(theirs.peer_id)[0]
            await until(partial(is_gone, connection, stream))
            assert await stream.read_exactly(6) == b"answer"
            if message == b"end":
                assert await stream.read() == b""
            with pytest.raises(StreamError, match="reset by the peer"):
                await (stream.write(b"more") if message == b"end" else stream.read())


async def test_unread_data_is_bounded_and_other_streams_continue() -> None:
    released = asyncio.Event()

    async def hold(stream: Stream) -> None:
        await released.wait()
        assert len(await stream.read_all(5_000_000)) == 2_000_000
        await stream.write(b"all")

    async with two_hosts() as (ours, theirs):
        theirs.set_stream_handler("/hold/1", hold)
        _, stream = await ours.open_stream(theirs.peer_id, ["/hold/1"])
        writing = asyncio.create_task(stream.write(bytes(2_000_000)))
        session = ours.connections_to_peer(theirs.peer_id)[0].session
        await until(lambda: any(not session.send_window(number) for number in session.streams))
        assert await echo_through(ours, theirs.peer_id, b"still served") == b"still served"
        connection = theirs.connections_to_peer(ours.peer_id)[0]
        assert connection.unread_bytes <= 256 * 1024 and not writing.done()
        released.set()
        await writing
        stream.close()
        assert await stream.read_all(10) == b"all"


async def test_what_is_held_is_counted_until_it_is_processed_or_dropped() -> None:
    released = asyncio.Event()
    messages: list[bytes | None] = []

    async def receive(stream: Stream) -> None:
        await released.wait()
        messages.append(await stream.read_message(1 << 20))
        messages.append(await stream.read_message(1 << 20))

    async with two_hosts() as (ours, theirs):
        theirs.set_stream_handler("/receive/1", receive)
        _, stream = await ours.open_stream(theirs.peer_id, ["/receive/1"])
        await stream.write_message(bytes(100_000))
        await stream.write(varint.encode(1 << 20) + bytes(70_000))
        await until(lambda: theirs.held.total >= 170_000)
        released.set()
        await until(lambda: messages)
        # The finished message is the handler's, the unfinished one is still held.
        await until(lambda: theirs.held.total == 70_000)
        stream.reset()
        await until(lambda: theirs.held.total == 0)
        assert messages == [bytes(100_000)] and ours.held.total == 0


async def test_a_handler_counts_what_it_keeps_for_a_stream() -> None:
    released = asyncio.Event()

    async def keep(stream: Stream) -> None:
        stream.hold(5000)
        await released.wait()

    async with two_hosts() as (ours, theirs):
        theirs.set_stream_handler("/keep/1", keep)
        await ours.open_stream(theirs.peer_id, ["/keep/1"])
        await until(lambda: theirs.held.total == 5000)
        released.set()
        await until(lambda: theirs.held.total == 0)
