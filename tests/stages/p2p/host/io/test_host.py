"""Two hosts over loopback: events, connection gating, connection limits."""

import contextlib
import socket

import pytest

from rollup_node.stages.p2p.addresses.ip import parse_ip
from rollup_node.stages.p2p.config import ResourceLimits
from rollup_node.stages.p2p.gating.peer_drops import PeerDropReason
from rollup_node.stages.p2p.host.io import host as transport_host
from rollup_node.stages.p2p.host.io.connection import TransportError
from rollup_node.stages.p2p.host.io.host_api import DialError, Direction, PeerConnected, PeerDisconnected
from rollup_node.stages.p2p.storage.peer_record import IdentifyRecord
from tests.support.p2p.hosts import ECHO, RecordingHost, config, echo_through, running_host, two_hosts
from tests.support.timing.conditions import until


@pytest.mark.option("p2p.useragent")
async def test_both_ends_emit_connected_and_identified() -> None:
    async with two_hosts(user_agent="rollup/7") as (ours, theirs):
        assert isinstance(ours.events[0], PeerConnected) and isinstance(theirs.events[0], PeerConnected)
        assert (ours.events[0].direction, theirs.events[0].direction) == (Direction.OUTBOUND, Direction.INBOUND)
        info = ours.connection(theirs.peer_id)
        assert info is not None and info.identify is not None
        assert info.identify.agent_version == "rollup/7"
        assert info.identify.listen_addresses == theirs.addresses
        assert ECHO in info.identify.protocols
        assert ours.peerstore.addresses(theirs.peer_id) == list(theirs.addresses)
        assert theirs.peerstore.addresses(ours.peer_id) == list(ours.addresses)
        description = ours.peerstore.record(theirs.peer_id, IdentifyRecord)
        assert description is not None and description.agent == "rollup/7"
        ours.disconnect(theirs.peer_id, PeerDropReason.BY_OPERATOR)
        await theirs.wait_for(PeerDisconnected)
        assert ours.connections() == theirs.connections() == []
        assert isinstance(ours.events[-1], PeerDisconnected)
        assert [(gone.peer, gone.reason) for gone in ours.closed_connections] == [
            (theirs.peer_id, "disconnected by an operator")
        ]
        closed = theirs.closed_connections[0]
        assert closed.reason == "closed by the peer" and 0 < closed.seconds < 30


async def test_blocked_and_banned_peers_are_denied() -> None:
    async with two_hosts() as (ours, theirs):
        theirs.ban(ours.peer_id, 3600.0, "bad score")
        await ours.wait_for(PeerDisconnected)
        await until(lambda: not theirs.connections())
        with pytest.raises(DialError, match="peer banned"):
            await theirs.connect(ours.peer_id)
        await ours.connect(theirs.peer_id)
        await until(lambda: not ours.connections())
        assert theirs.connections() == []
        theirs.connection_gater.peer_bans.clear()
        theirs.connection_gater.blocked_ips.add(parse_ip("127.0.0.1"))
        theirs.save_gater()
        with pytest.raises(DialError):
            await ours.connect(theirs.peer_id)
        assert theirs.peerstore.load_gater().blocked_ips == {parse_ip("127.0.0.1")}
        text = theirs.meter.text().decode()
        assert 'op_node_default_p2p_accepts{allow="false"} 1.0' in text


async def test_connections_are_bounded() -> None:
    limits = ResourceLimits(connections=3)
    async with running_host(1, limits=limits) as ours:
        hosts = [RecordingHost(number) for number in range(2, 7)]
        for host in hosts:
            await host.start()
            await host.connect(ours.peer_id, ours.addresses)
        await until(lambda: len(ours.peers()) == 3)
        await until(lambda: sum(bool(host.connections()) for host in hosts) == 3)
        ours.connection_manager.protect(hosts[4].peer_id, "static")
        await hosts[4].connect(ours.peer_id, ours.addresses)
        await until(lambda: hosts[4].peer_id in ours.peers())
        for host in hosts:
            await host.stop()


async def test_connections_of_one_host_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport_host, "is_over_host_limit", lambda ip, others: len(others) >= 2)
    async with running_host(1) as ours, running_host(2) as one, running_host(3) as two, running_host(4) as three:
        for host in (one, two):
            await host.connect(ours.peer_id, ours.addresses)
        with pytest.raises(DialError):
            await three.connect(ours.peer_id, ours.addresses)
        await ours.connect(three.peer_id, three.addresses)
        assert len(ours.peers()) == 3, "whom we dial comes in"


@pytest.mark.option("p2p.listen.tcp")
async def test_a_port_in_use_is_reported() -> None:
    async with running_host(1) as ours:
        second = RecordingHost(2, listen_tcp=ours.port)
        with pytest.raises(TransportError, match=r"cannot listen for peers on 127.0.0.1:\d+: .*in use"):
            await second.start()


async def test_ipv6() -> None:
    if not _has_ipv6():
        pytest.skip("this machine has no IPv6 loopback address")
    options = {"listen_ip": "::1", "netrestrict": ("::1/128",)}
    async with running_host(1, **options) as ours, running_host(2, **options) as theirs:
        await ours.connect(theirs.peer_id, theirs.addresses)
        assert str(theirs.addresses[0]) == f"/ip6/::1/tcp/{theirs.port}"
        assert await echo_through(ours, theirs.peer_id, b"six") == b"six"


def _has_ipv6() -> bool:
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET6) as probe:
        probe.bind(("::1", 0))
        return True
    return False


def test_tests_stay_on_the_loopback_interface() -> None:
    assert config().netrestrict == ("127.0.0.0/8",)
    assert config().listen_ip == "127.0.0.1" and config().bootnodes == ()
