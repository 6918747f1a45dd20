"""Hosts that know only a bootnode find and dial each other."""

import asyncio
import contextlib
import ipaddress
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest

from rollup_node.stages.p2p.addresses.multiaddr import tcp_multiaddr
from rollup_node.stages.p2p.nat.nat_pmp import TransportProtocol
from rollup_node.stages.p2p.peering.io.discovery_service import DiscoveryService
from rollup_node.stages.p2p.peering.io.discv5_server import DiscoveredPeer
from rollup_node.stages.p2p.peering.io.gateways import ExternalMapping, LocalPort
from rollup_node.stages.p2p.peering.io.peer_manager import PeerManager
from rollup_node.stages.p2p.peering.io.port_mapper import GatewayAddresses
from tests.support.p2p.hosts import RecordingHost, until
from tests.support.servers.loopback import free_port, own_address

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
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await service.close()
        await host.stop()
        host.peerstore.close()


async def test_hosts_find_and_dial_each_other() -> None:
    async with discovering_host(1) as (one, first):
        assert first.discv5 is not None
        boot = (first.discv5.enr.text,)
        async with (
            discovering_host(2, bootnodes=boot) as (two, second),
            discovering_host(3, bootnodes=boot) as (three, _),
        ):
            await until(lambda: all(len(host.connections()) == 2 for host in (one, two, three)), 20)
            assert second.discv5 is not None and second.discv5.node.peers_wanted
            metadata = two.peerstore.metadata(three.peer_id)
            assert metadata is not None and metadata.chain_id == two.config.rollup.l2_chain_id
            assert metadata.enr.startswith("enr:")
            assert two.peerstore.addresses(three.peer_id)[0] == tcp_multiaddr(own_address(), three.port)
            assert two.external_address == tcp_multiaddr(own_address(), two.port)
            tag = f"opstack-{metadata.chain_id}-0"
            await until(lambda: two.connection_manager.tags.get(three.peer_id, {}).get(tag) == 42)


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
        own = tcp_multiaddr("127.0.0.1", host.port)
        service.on_peer_found(DiscoveredPeer(host.peer_id, own, "enr:", 1))
        service.on_peer_found(DiscoveredPeer(b"\0\1x", own, "enr:", 1))
        assert host.peerstore.addresses(host.peer_id) == []
        assert host.peerstore.addresses(b"\0\1x") == [own]
