"""Discovery over UDP on the loopback interface. Hosts that know only a bootnode find and dial each other."""

import asyncio
import contextlib
import ipaddress
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from rollup_node.stages.io.task import cancel_all
from rollup_node.stages.p2p.addresses.ip import parse_ip
from rollup_node.stages.p2p.addresses.multiaddr import tcp_multiaddr
from rollup_node.stages.p2p.discv5.calls import OutgoingPacket
from rollup_node.stages.p2p.discv5.enr import Endpoint
from rollup_node.stages.p2p.discv5.node import ChainNodeFound
from rollup_node.stages.p2p.peering.io import discovery_service
from rollup_node.stages.p2p.peering.io.discovery_service import (
    DiscoveryError,
    DiscoveryService,
)
from rollup_node.stages.p2p.peering.io.peer_manager import PeerManager
from rollup_node.stages.p2p.peering.io.port_mapper import ExternalMapping, GatewayAddresses, LocalPort
from rollup_node.stages.p2p.peering.nat_pmp import TransportProtocol
from rollup_node.stages.protocol import secp256k1
from tests.support.p2p.discv5_nodes import record_of
from tests.support.p2p.discv5_servers import RecordingDiscv5Server, running_discv5
from tests.support.p2p.hosts import RecordingHost
from tests.support.servers.loopback import free_port, own_address
from tests.support.timing.conditions import until


def enode(server: RecordingDiscv5Server, host: str) -> str:
    key = secp256k1.convert_point(server.identity.public_key.data, compressed=False)[1:].hex()
    return f"enode://{key}@{host}:0?discport={server.endpoint.port}"


def require_ipv6() -> None:
    """Skips the test on machines without IPv6."""
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as probe:
            probe.bind(("::1", 0))
    except OSError as error:
        pytest.skip(f"no IPv6 on the loopback interface: {error.strerror}")


async def test_bootnodes_by_url_and_by_name() -> None:
    async with running_discv5("boot", listen_ip="127.0.0.1") as boot:
        for host in ("127.0.0.1", "localhost"):
            async with running_discv5(host, bootnodes=(enode(boot, host),)) as server:
                await until(server.has_discovered)
                assert server.discovered[0].record == boot.enr


@pytest.mark.option("p2p.discovery.path")
async def test_nodes_survive_a_restart(tmp_path: Path) -> None:
    path = str(tmp_path / "nodes")
    async with running_discv5("other") as other:
        port = free_port(socket.SOCK_DGRAM)
        async with running_discv5("one", bootnodes=(other.enr.text,), discovery_path=path, listen_udp=port) as one:
            await until(lambda: one.discovered)
            first = one.enr
        async with running_discv5("one", discovery_path=path, listen_udp=port) as restarted:
            await until(lambda: restarted.discovered)
            assert restarted.discovered[0].record == other.enr
            assert restarted.enr == first
        async with running_discv5("one", discovery_path=path, listen_udp=port, advertise_tcp=77) as changed:
            assert changed.enr.seq > first.seq


@pytest.mark.option("p2p.advertise.ip", "p2p.advertise.tcp", "p2p.advertise.udp")
async def test_advertised_endpoints() -> None:
    async with running_discv5("one", tcp=4001) as one:
        assert one.enr.udp(4) == one.endpoint
        assert one.enr.tcp(4) == Endpoint(one.endpoint.ip, 4001)
    async with running_discv5(
        "two", advertise_ip="localhost", advertise_udp=5, advertise_tcp=6, listen_ip="0.0.0.0"
    ) as two:
        assert two.enr.udp(4) == Endpoint(parse_ip("127.0.0.1"), 5)
        assert two.enr.tcp(4) == Endpoint(parse_ip("127.0.0.1"), 6)
        two.set_external_address(parse_ip("8.8.4.4"), 1, 2)
        assert two.enr.udp(4) == Endpoint(parse_ip("127.0.0.1"), 5)
    async with running_discv5("three", listen_ip="0.0.0.0", tcp=9) as three:
        assert three.enr.udp(4) is None
        updated: list[object] = []
        three.on_enr_updated = updated.append
        three.set_external_address(parse_ip("8.8.4.4"), 1, 2)
        assert three.enr.udp(4) == Endpoint(parse_ip("8.8.4.4"), 1) and updated == [three.enr]


@pytest.mark.option("p2p.listen.udp")
async def test_the_udp_port_is_the_tcp_port_unless_it_is_given() -> None:
    port = free_port(socket.SOCK_DGRAM)
    async with running_discv5("one", listen_udp=0, listen_tcp=port, tcp=port) as one:
        assert one.endpoint.port == port
        with pytest.raises(DiscoveryError, match=r"cannot listen .*p2p\.listen\.udp"):
            async with running_discv5("two", listen_udp=port):
                pass
        async with running_discv5("three", listen_udp=0, listen_tcp=0, tcp=port) as three:
            assert three.endpoint.port not in (0, port)


async def test_invalid_options_are_reported() -> None:
    with pytest.raises(DiscoveryError, match=r"p2p\.advertise\.ip"):
        async with running_discv5("one", advertise_ip="x" * 64 + ".invalid"):
            pass


@pytest.mark.option("p2p.listen.ip", "p2p.netrestrict")
async def test_ipv6() -> None:
    require_ipv6()
    async with running_discv5("one", listen_ip="::1", netrestrict=("127.0.0.0/8",)) as one:
        assert one.enr.udp(6) == one.endpoint and one.node.settings.ip_versions == (6,)
    async with running_discv5("both", listen_ip="::") as both, running_discv5("four") as four:
        both.node.add_known_nodes([four.enr], asyncio.get_running_loop().time())
        await until(lambda: both.discovered)
        assert both.discovered[0].record == four.enr


async def test_lookups_stop_at_the_low_water_mark_and_metrics_count_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discovery_service, "_REPORT_INTERVAL", 0.2)
    async with running_discv5("one") as one, running_discv5("two", bootnodes=(one.enr.text,)) as two:
        two.set_peer_count(20)
        assert not two.node.peers_wanted
        two.set_peer_count(19)
        assert two.node.peers_wanted
        await until(lambda: two.discovered)
        one.node.calls.outbox.append(OutgoingPacket(b"x" * 100, two.endpoint))
        one.flush()
        await until(lambda: two.node.drops)
        await until(lambda: b'reason="not a packet"} 1.0' in two.meter.text())
        text = two.meter.text().decode()
        assert 'p2p_discovery_nodes{kind="ours"} 1.0' in text
        assert 'p2p_discovery_drops_total{reason="not a packet"} 1.0' in text


LISTEN = {"listen_ip": own_address()}


@contextlib.asynccontextmanager
async def discovering_host(number: int, **options: Any) -> AsyncIterator[tuple[RecordingHost, DiscoveryService]]:
    """Yield a host whose discovery, and dialling of known peers, run."""
    host = RecordingHost(
        number, **{"no_discovery": False, **LISTEN, "listen_udp": free_port(socket.SOCK_DGRAM), **options}
    )
    await host.start()
    manager, service = PeerManager(host), DiscoveryService(host, gateways=GatewayAddresses(None, None))
    await service.start()

    async def repeat(step: Any, pause: float) -> None:
        while True:
            await asyncio.sleep(min(await step(), pause))

    dialling = [activity for activity in manager.periodic_tasks if activity.name == "dial known peers"]
    parts = [part for part in (service.discv5, service.port_mapper) if part is not None]
    running = [asyncio.create_task(repeat(part.step, 0.2)) for part in (*dialling, *parts)]
    try:
        yield host, service
    finally:
        await cancel_all(running)
        await service.close()
        await host.stop()
        host.peerstore.close()


async def test_discovery_stops_with_enough_peers() -> None:
    async with discovering_host(1, peers_lo=1) as (one, first):
        assert first.discv5 is not None
        async with discovering_host(2, peers_lo=1, bootnodes=(first.discv5.enr.text,)):
            server = first.discv5
            await until(lambda: one.connections() and not server.node.peers_wanted)
        await until(lambda: server.node.peers_wanted)


@pytest.mark.option("p2p.nat")
async def test_mapped_ports_set_the_external_address() -> None:
    external_ip = ipaddress.ip_address("8.8.4.4")
    async with discovering_host(1, nat=True) as (host, service):
        assert service.discv5 is not None and service.port_mapper is not None
        udp = LocalPort(TransportProtocol.UDP, service.discv5.endpoint.port)
        service.on_ports_mapped(
            ExternalMapping(external_ip, {LocalPort(TransportProtocol.TCP, host.port): 40001, udp: 40002}, 600.0)
        )
        assert service.discv5.enr.udp(4) == (external_ip, 40002)
        assert host.external_address == tcp_multiaddr("8.8.4.4", 40001)


@pytest.mark.option("p2p.no-discovery")
async def test_without_discovery_only_ports_are_mapped() -> None:
    async with discovering_host(1, nat=True, no_discovery=True) as (host, service):
        assert service.discv5 is None and service.port_mapper is not None
        service.on_ports_mapped(
            ExternalMapping(
                ipaddress.ip_address("8.8.4.4"), {LocalPort(TransportProtocol.TCP, host.port): 40001}, 600.0
            )
        )
        assert host.external_address == tcp_multiaddr("8.8.4.4", 40001)
    async with discovering_host(2, no_discovery=True) as (_, service):
        assert service.discv5 is None and service.port_mapper is None


async def test_our_own_record_is_ignored() -> None:
    async with discovering_host(1) as (host, service):
        assert service.discv5 is not None
        tcp = Endpoint(parse_ip("127.0.0.1"), host.port)
        for record in (service.discv5.enr, record_of("other")):
            service.on_peer_found(ChainNodeFound(record, tcp))
        assert host.peerstore.addresses(host.peer_id) == []
        assert len(host.peerstore.peers()) == 1
