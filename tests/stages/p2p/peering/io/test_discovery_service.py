"""Hosts that know nobody but a bootnode, and find and dial each other."""

import asyncio
import contextlib
import ipaddress
from collections.abc import AsyncIterator
from typing import Any

from rollup_node.stages.p2p.discv5.io.udp_service import FoundPeer
from rollup_node.stages.p2p.identity.multiaddr import tcp_multiaddr
from rollup_node.stages.p2p.nat.io.port_mapper import Targets
from rollup_node.stages.p2p.nat.io.routers import Outer, Wanted
from rollup_node.stages.p2p.nat.nat_pmp import Transport
from rollup_node.stages.p2p.peering.io.discovery_service import PeerFinder
from rollup_node.stages.p2p.peering.io.peer_manager import Upkeep
from tests.support.discv5_servers import free_port
from tests.support.p2p_hosts import TestHost, until


@contextlib.asynccontextmanager
async def finding(number: int, **options: Any) -> AsyncIterator[tuple[TestHost, PeerFinder]]:
    """A host with discovery and upkeep, whose activities run."""
    host = TestHost(number, **{"no_discovery": False, "listen_udp": free_port(), **options})
    await host.start()
    upkeep, finder = Upkeep(host), PeerFinder(host, targets=Targets(None, None))
    await finder.start()

    async def repeat(step: Any, pause: float) -> None:
        while True:
            await asyncio.sleep(min(await step(), pause))

    seeking = [activity for activity in upkeep.periodic_tasks if activity.name == "seek peers"]
    running = [asyncio.create_task(repeat(activity.step, 0.2)) for activity in (*seeking, *finder.periodic_tasks)]
    try:
        yield host, finder
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await finder.close()
        await host.stop()
        host.store.close()


def test_hosts_find_and_dial_each_other() -> None:
    async def check() -> None:
        async with finding(1) as (one, first):
            assert first.server is not None
            boot = (first.server.record.text,)
            async with finding(2, bootnodes=boot) as (two, second), finding(3, bootnodes=boot) as (three, _):
                await until(lambda: all(len(host.connections()) == 2 for host in (one, two, three)), 20)
                assert second.server is not None and second.server.service.wanted
                metadata = two.store.metadata(three.peer_id)
                assert metadata is not None and metadata.chain_id == two.config.rollup.l2_chain_id
                assert metadata.enr.startswith("enr:")
                assert two.store.addresses(three.peer_id)[0] == tcp_multiaddr("127.0.0.1", three.port)
                assert two.external == tcp_multiaddr("127.0.0.1", two.port)
                tag = f"opstack-{metadata.chain_id}-0"
                await until(lambda: two.manager._values.get(three.peer_id, {}).get(tag) == 42)

    asyncio.run(check())


def test_enough_peers_end_the_search() -> None:
    async def check() -> None:
        async with finding(1, peers_lo=1) as (one, first):
            assert first.server is not None
            async with finding(2, peers_lo=1, bootnodes=(first.server.record.text,)):
                server = first.server
                await until(lambda: one.connections() and not server.service.wanted)
            await until(lambda: server.service.wanted)

    asyncio.run(check())


def test_the_router_says_where_we_are_reached() -> None:
    outer_ip = ipaddress.ip_address("8.8.4.4")

    async def check() -> None:
        async with finding(1, nat=True) as (host, finder):
            assert [activity.name for activity in finder.periodic_tasks] == ["discovery", "port forwarding"]
            assert finder.server is not None
            udp = Wanted(Transport.UDP, finder.server.endpoint.port)
            finder._forwarded(Outer(outer_ip, {Wanted(Transport.TCP, host.port): 40001, udp: 40002}, 600.0))
            assert finder.server.record.udp(4) == (outer_ip, 40002)
            assert host.external == tcp_multiaddr("8.8.4.4", 40001)

    asyncio.run(check())


def test_without_discovery_only_the_router_is_asked() -> None:
    async def check() -> None:
        async with finding(1, nat=True, no_discovery=True) as (host, finder):
            assert finder.server is None
            assert [activity.name for activity in finder.periodic_tasks] == ["port forwarding"]
            finder._forwarded(Outer(ipaddress.ip_address("8.8.4.4"), {Wanted(Transport.TCP, host.port): 40001}, 600.0))
            assert host.external == tcp_multiaddr("8.8.4.4", 40001)
        async with finding(2, no_discovery=True) as (_, finder):
            assert finder.periodic_tasks == ()

    asyncio.run(check())


def test_we_do_not_find_ourselves() -> None:
    async def check() -> None:
        async with finding(1) as (host, finder):
            heard: list[FoundPeer] = []
            finder.on_found = heard.append
            own = tcp_multiaddr("127.0.0.1", host.port)
            finder._found(FoundPeer(host.peer_id, own, "enr:", 1))
            finder._found(FoundPeer(b"\0\1x", own, "enr:", 1))
            assert [found.peer for found in heard] == [b"\0\1x"]
            assert host.store.addresses(host.peer_id) == []

    asyncio.run(check())
