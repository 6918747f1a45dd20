"""Hosts that know nobody but a bootnode, and find and dial each other."""

import asyncio
import contextlib
import ipaddress
from collections.abc import AsyncIterator
from typing import Any

from rollup_node.stages.p2p.addresses.multiaddr import tcp_multiaddr
from rollup_node.stages.p2p.discv5.io.udp_server import DiscoveredPeer
from rollup_node.stages.p2p.nat.io.gateways import ExternalMapping, LocalPort
from rollup_node.stages.p2p.nat.io.port_mapper import GatewayAddresses
from rollup_node.stages.p2p.nat.nat_pmp import TransportProtocol
from rollup_node.stages.p2p.peering.io.discovery_service import DiscoveryService
from rollup_node.stages.p2p.peering.io.peer_manager import PeerManager
from tests.support.discv5_servers import free_port
from tests.support.p2p_hosts import RecordingHost, until


@contextlib.asynccontextmanager
async def finding(number: int, **options: Any) -> AsyncIterator[tuple[RecordingHost, DiscoveryService]]:
    """A host with discovery and upkeep, whose activities run."""
    host = RecordingHost(number, **{"no_discovery": False, "listen_udp": free_port(), **options})
    await host.start()
    upkeep, finder = PeerManager(host), DiscoveryService(host, gateways=GatewayAddresses(None, None))
    await finder.start()

    async def repeat(step: Any, pause: float) -> None:
        while True:
            await asyncio.sleep(min(await step(), pause))

    seeking = [activity for activity in upkeep.activities if activity.name == "dial known peers"]
    running = [asyncio.create_task(repeat(activity.step, 0.2)) for activity in (*seeking, *finder.activities)]
    try:
        yield host, finder
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await finder.close()
        await host.stop()
        host.peerstore.close()


def test_hosts_find_and_dial_each_other() -> None:
    async def check() -> None:
        async with finding(1) as (one, first):
            assert first.discv5 is not None
            boot = (first.discv5.enr.text,)
            async with finding(2, bootnodes=boot) as (two, second), finding(3, bootnodes=boot) as (three, _):
                await until(lambda: all(len(host.connections()) == 2 for host in (one, two, three)), 20)
                assert second.discv5 is not None and second.discv5.node.peers_wanted
                metadata = two.peerstore.metadata(three.peer_id)
                assert metadata is not None and metadata.chain_id == two.config.rollup.l2_chain_id
                assert metadata.enr.startswith("enr:")
                assert two.peerstore.addresses(three.peer_id)[0] == tcp_multiaddr("127.0.0.1", three.port)
                assert two.external_address == tcp_multiaddr("127.0.0.1", two.port)
                tag = f"opstack-{metadata.chain_id}-0"
                await until(lambda: two.connection_manager._tags.get(three.peer_id, {}).get(tag) == 42)

    asyncio.run(check())


def test_discovery_stops_with_enough_peers() -> None:
    async def check() -> None:
        async with finding(1, peers_lo=1) as (one, first):
            assert first.discv5 is not None
            async with finding(2, peers_lo=1, bootnodes=(first.discv5.enr.text,)):
                server = first.discv5
                await until(lambda: one.connections() and not server.node.peers_wanted)
            await until(lambda: server.node.peers_wanted)

    asyncio.run(check())


def test_mapped_ports_set_the_external_address() -> None:
    outer_ip = ipaddress.ip_address("8.8.4.4")

    async def check() -> None:
        async with finding(1, nat=True) as (host, finder):
            assert [activity.name for activity in finder.activities] == ["discovery", "port forwarding"]
            assert finder.discv5 is not None
            udp = LocalPort(TransportProtocol.UDP, finder.discv5.endpoint.port)
            finder.on_ports_mapped(
                ExternalMapping(outer_ip, {LocalPort(TransportProtocol.TCP, host.port): 40001, udp: 40002}, 600.0)
            )
            assert finder.discv5.enr.udp(4) == (outer_ip, 40002)
            assert host.external_address == tcp_multiaddr("8.8.4.4", 40001)

    asyncio.run(check())


def test_without_discovery_only_ports_are_mapped() -> None:
    async def check() -> None:
        async with finding(1, nat=True, no_discovery=True) as (host, finder):
            assert finder.discv5 is None
            assert [activity.name for activity in finder.activities] == ["port forwarding"]
            finder.on_ports_mapped(
                ExternalMapping(
                    ipaddress.ip_address("8.8.4.4"), {LocalPort(TransportProtocol.TCP, host.port): 40001}, 600.0
                )
            )
            assert host.external_address == tcp_multiaddr("8.8.4.4", 40001)
        async with finding(2, no_discovery=True) as (_, finder):
            assert finder.activities == ()

    asyncio.run(check())


def test_our_own_record_is_ignored() -> None:
    async def check() -> None:
        async with finding(1) as (host, finder):
            own = tcp_multiaddr("127.0.0.1", host.port)
            finder.on_peer_found(DiscoveredPeer(host.peer_id, own, "enr:", 1))
            finder.on_peer_found(DiscoveredPeer(b"\0\1x", own, "enr:", 1))
            assert host.peerstore.addresses(host.peer_id) == []
            assert host.peerstore.addresses(b"\0\1x") == [own]

    asyncio.run(check())
