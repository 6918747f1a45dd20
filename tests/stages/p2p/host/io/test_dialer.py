"""Dialling: one attempt at a time, addresses in turn, and errors."""

import asyncio
import time

import pytest

from rollup_node.stages.p2p.addresses.multiaddr import parse_multiaddr
from rollup_node.stages.p2p.addresses.peer_id import NetworkIdentity
from rollup_node.stages.p2p.gating.peer_drops import PeerDropReason
from rollup_node.stages.p2p.host.io.host_api import DialError, PeerConnected, PeerDisconnected
from tests.support.p2p.hosts import echo_through, running_host, two_hosts


async def test_one_dial_at_a_time_and_one_connection() -> None:
    async with two_hosts() as (ours, theirs):
        ours.disconnect(theirs.peer_id, PeerDropReason.BY_OPERATOR)
        await theirs.wait_for(PeerDisconnected)
        await asyncio.gather(*(ours.connect(theirs.peer_id) for _ in range(5)))
        await ours.connect(theirs.peer_id)
        await theirs.connect(ours.peer_id)
        assert len(ours.connections_to_peer(theirs.peer_id)) == len(theirs.connections_to_peer(ours.peer_id)) == 1


async def test_simultaneous_dials_leave_a_connection() -> None:
    async with running_host(1) as ours, running_host(2) as theirs:
        await asyncio.gather(
            ours.connect(theirs.peer_id, theirs.addresses), theirs.connect(ours.peer_id, ours.addresses)
        )
        assert await echo_through(ours, theirs.peer_id, b"a") == b"a"
        assert await echo_through(theirs, ours.peer_id, b"b") == b"b"
        assert [type(event) for event in ours.events].count(PeerConnected) == 1


async def test_dial_errors_have_a_reason_per_address() -> None:
    async with two_hosts() as (ours, theirs):
        stranger = NetworkIdentity(b"\x07" * 32).peer_id
        closed = parse_multiaddr("/ip4/127.0.0.1/tcp/1")
        for addresses, why in [
            ([], "no known address of"),
            ([closed], "/ip4/127.0.0.1/tcp/1: .*refused"),
            ([closed, theirs.addresses[0]], "refused; .*the remote end is"),
            ([parse_multiaddr("/ip4/192.0.2.1/tcp/1")], "outside p2p.netrestrict"),
            ([parse_multiaddr("/ip4/127.0.0.1/udp/1")], "not a TCP address"),
            ([theirs.addresses[0].with_peer_id(theirs.peer_id)], "the address of another peer"),
        ]:
            with pytest.raises(DialError, match=why):
                await ours.connect(stranger, addresses)
            assert ours.dialer.last_errors[stranger]
        with pytest.raises(DialError, match="this node itself"):
            await ours.connect(ours.peer_id, ours.addresses)


@pytest.mark.option("p2p.timeout.dial")
async def test_dialling_ends_with_the_timeout_of_the_option() -> None:
    """The other end accepts and is silent."""

    async def wait_for_the_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    silent = await asyncio.start_server(wait_for_the_end, "127.0.0.1", 0)
    address = parse_multiaddr(f"/ip4/127.0.0.1/tcp/{silent.sockets[0].getsockname()[1]}")
    async with silent, running_host(1, dial_timeout=0.1) as ours:
        began = time.monotonic()
        with pytest.raises(DialError):
            await ours.connect(NetworkIdentity(b"\x07" * 32).peer_id, [address])
        assert 0.1 <= time.monotonic() - began < 5.0


async def test_host_names_are_resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a name server: `localhost` is in the hosts file, and the failure is simulated."""

    async def fail(*_: object, **__: object) -> None:
        raise OSError(-2, "Name or service not known")

    async with running_host(1) as ours, running_host(2) as theirs:
        address = parse_multiaddr(f"/dns4/localhost/tcp/{theirs.port}")
        await ours.connect(theirs.peer_id, [address])
        ours.disconnect(theirs.peer_id, PeerDropReason.BY_OPERATOR)
        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", fail)
        with pytest.raises(DialError, match="the name cannot be resolved: Name or service not known"):
            await ours.connect(theirs.peer_id, [address])
