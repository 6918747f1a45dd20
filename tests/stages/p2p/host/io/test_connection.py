"""Connections between two hosts: upgrade, keepalive, idle timeout, and handlers that fail."""

import asyncio
import gc
import socket
from functools import partial
from typing import Any

import pytest

from rollup_node.stages.p2p.addresses.multiaddr import tcp_multiaddr
from rollup_node.stages.p2p.addresses.peer_id import NetworkIdentity
from rollup_node.stages.p2p.config import ResourceLimits
from rollup_node.stages.p2p.gating.peer_drops import PeerDrop, PeerDropReason
from rollup_node.stages.p2p.host.io.connection import Connection
from rollup_node.stages.p2p.host.io.host_api import DialError, Direction, PeerDisconnected, PeerIdentified, StreamError
from rollup_node.stages.p2p.host.io.streams import Stream
from tests.support.p2p.hosts import RecordingHost, echo_through, running_host, two_hosts
from tests.support.p2p.raw import raw_peer
from tests.support.timing.conditions import until


async def test_a_handler_that_raises_closes_the_connection(capsys: pytest.CaptureFixture[str]) -> None:
    async def fail(_: Stream) -> None:
        raise RuntimeError("a bug")

    async with two_hosts() as (ours, theirs):
        theirs.set_stream_handler("/fail/1", fail)
        with pytest.raises(StreamError):
            _, stream = await ours.open_stream(theirs.peer_id, ["/fail/1"])
            await stream.read()
        await ours.wait_for(PeerDisconnected)
        await ours.connect(theirs.peer_id, theirs.addresses)
        assert await echo_through(ours, theirs.peer_id, b"again") == b"again"
    assert "RuntimeError: a bug" in capsys.readouterr().err


async def test_a_silent_handshake_times_out() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with running_host(1, handshake_timeout=0.2) as ours:
        with pytest.raises(DialError, match="handshake not finished within"):
            await ours.connect(NetworkIdentity(b"\x07" * 32).peer_id, [tcp_multiaddr("127.0.0.1", port)])
    server.close()
    await until(lambda: len(asyncio.all_tasks()) == 1, 5)


def has_received_more(host: RecordingHost, before: int) -> bool:
    """Whether a host has received more bytes than `before`."""
    return host.bytes_in > before


async def test_silent_connections_are_kept_alive_by_pings() -> None:
    async with running_host(1) as ours, running_host(2) as theirs:
        ours.keepalive_interval = 0.1
        await ours.connect(theirs.peer_id, theirs.addresses)
        await ours.wait_for(PeerIdentified)
        await theirs.wait_for(PeerIdentified)
        for _ in range(3):
            await until(partial(has_received_more, ours, ours.bytes_in))
        assert ours.connections() and theirs.connections()


async def test_a_peer_that_does_not_answer_pings_is_disconnected() -> None:
    async with running_host(1) as ours:
        ours.keepalive_interval = 0.1
        async with raw_peer(ours.port) as peer:
            assert await peer.is_disconnected()
        assert [closed.reason for closed in ours.closed_connections] == ["keepalive timeout"]


async def test_small_writes_are_sent_at_once() -> None:
    async with two_hosts() as (ours, theirs):
        (connection,) = ours.connections_to_peer(theirs.peer_id)
        assert connection._transport is not None
        assert connection._transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


async def test_an_inbound_handshake_that_fails_is_no_unhandled_error() -> None:
    errors: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: errors.append(context))
    async with running_host(1) as ours:
        _, writer = await asyncio.open_connection("127.0.0.1", ours.port)
        await until(lambda: len(ours.pending_handshakes))
        writer.close()
        await until(lambda: not len(ours.pending_handshakes))
    gc.collect()
    assert errors == []


class GoneTransport(asyncio.Transport):
    """A transport whose peer disconnected before it was accepted."""

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def abort(self) -> None:
        pass


async def test_a_peer_that_is_gone_before_its_handshake() -> None:
    async with running_host(1) as ours:
        connection = Connection(ours, Direction.INBOUND)
        connection.connection_made(GoneTransport())
        assert connection.drop == PeerDrop(PeerDropReason.GONE_BEFORE_HANDSHAKE)


async def test_idle_connections_are_closed() -> None:
    async with running_host(1, idle_timeout=0.3) as ours, running_host(2) as theirs:
        ours.keepalive_interval = 0.1
        await ours.connect(theirs.peer_id, theirs.addresses)
        await theirs.wait_for(PeerDisconnected, 5)


async def test_a_peer_with_too_much_unsent_is_disconnected() -> None:
    async with two_hosts() as (ours, theirs):
        (connection,) = ours.connections_to_peer(theirs.peer_id)
        connection.flush()
        assert ours.connections()
        ours.limits = ResourceLimits(backlog_bytes=-1)
        connection.flush()
        assert not ours.connections()
        assert [closed.reason for closed in ours.closed_connections] == ["the peer does not read"]
