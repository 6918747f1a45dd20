"""The activities that keep the set of peers right, driven as the runtime drives them."""

import asyncio
import time

import pytest

from rollup_node.stages.p2p.host.host_api import PeerDisconnected
from rollup_node.stages.p2p.identity.multiaddr import tcp_multiaddr
from rollup_node.stages.p2p.identity.peer_id import Identity
from rollup_node.stages.p2p.peering.io.peer_manager import STATIC, StaticPeerError, Upkeep, static_peers
from rollup_node.stages.p2p.peerstore.peer_record import GossipScores, PeerMetadata, PeerScores
from tests.support.p2p_hosts import TestHost, driven, running, until

OWN, OTHER = Identity(b"\x01" * 32), Identity(b"\x02" * 32)
BAD = PeerScores(GossipScores(total=-101.0))


async def step(upkeep: Upkeep, name: str, times: int = 1) -> None:
    """Runs steps of one activity."""
    activity = next(activity for activity in upkeep.periodic_tasks if activity.name == name)
    for _ in range(times):
        await activity.step()


def test_static_peers_are_dialled_again_and_again() -> None:
    async def run() -> None:
        async with running(2) as theirs:
            port = theirs.port
            async with running(1, static=(theirs.dial_text, "")) as ours:
                upkeep = Upkeep(ours)
                assert upkeep.is_static(theirs.peer_id) and ours.manager.is_protected(theirs.peer_id, STATIC)
                async with driven(*upkeep.periodic_tasks):
                    await until(lambda: ours.connections() and theirs.connections())
                    theirs.disconnect(ours.peer_id, "for a test")
                    await ours.heard(PeerDisconnected)
                    await until(ours.connections)
                    await theirs.stop()
                    await until(lambda: not ours.connections())
                    async with running(2, listen_tcp=port):
                        await until(ours.connections, 20)

    asyncio.run(run())


def test_a_static_peer_that_always_hangs_up_is_not_hammered() -> None:
    async def run() -> None:
        async with running(2) as theirs, running(1, static=(theirs.dial_text,)) as ours:
            theirs.gater.blocked_peers.add(ours.peer_id)
            async with driven(*Upkeep(ours).periodic_tasks):
                await asyncio.sleep(2.5)
            refused = sum(isinstance(event, PeerDisconnected) for event in ours.events)
            assert 1 <= refused <= 3

    asyncio.run(run())


def test_static_peers_need_address_port_and_id() -> None:
    text = TestHost(2).dial_text.replace("/tcp/0", "/tcp/9222")
    assert static_peers([text, " " + text], OWN.peer_id) == {OTHER.peer_id: [tcp_multiaddr("127.0.0.1", 9222)] * 2}
    assert static_peers([text], OTHER.peer_id) == {}
    for wrong in ("/ip4/127.0.0.1/tcp/1", "nonsense", text.replace("/tcp/9222", ""), text.replace("tcp", "udp")):
        with pytest.raises(StaticPeerError, match=r"p2p\.static"):
            static_peers([wrong], OWN.peer_id)


def test_known_peers_are_dialled_while_there_are_too_few() -> None:
    async def run() -> None:
        async with running(1, peers_lo=2, peers_hi=4) as ours, running(2) as a, running(3) as b, running(4) as other:
            upkeep = Upkeep(ours)
            gone = Identity(b"\x09" * 32).peer_id
            ours.store.add_addresses(gone, [tcp_multiaddr("127.0.0.1", 1)], 100.0)
            ours.store.add_addresses(other.peer_id, other.addresses, 100.0)
            ours.store.set_metadata(other.peer_id, PeerMetadata("", 1))
            ours.store.add_addresses(a.peer_id, a.addresses, 100.0)
            ours.store.set_metadata(a.peer_id, PeerMetadata("", ours.config.rollup.l2_chain_id))
            await step(upkeep, "seek peers")
            assert ours.peers() == [a.peer_id]
            ours.store.add_addresses(b.peer_id, b.addresses, 100.0)
            await step(upkeep, "seek peers")
            assert sorted(ours.peers()) == sorted([a.peer_id, b.peer_id])
            before = ours.meter.text()
            await step(upkeep, "seek peers")
            assert ours.meter.text() == before

    asyncio.run(run())


def test_peers_that_discovery_found_are_dialled_before_those_of_hearsay() -> None:
    async def run() -> None:
        async with running(1, peers_lo=1, peers_hi=2) as ours, running(2) as found:
            for number in range(3, 200):
                ours.store.add_addresses(Identity(bytes([number]) * 32).peer_id, [tcp_multiaddr("127.0.0.1", 1)], 100.0)
            ours.store.add_addresses(found.peer_id, found.addresses, 100.0)
            ours.store.set_metadata(found.peer_id, PeerMetadata("", ours.config.rollup.l2_chain_id))
            await step(Upkeep(ours), "seek peers")
            assert ours.peers() == [found.peer_id]
            assert len(ours.dialer.problems) < 100

    asyncio.run(run())


def test_the_surplus_is_let_go() -> None:
    async def run() -> None:
        async with running(1, peers_lo=1, peers_hi=2, peers_grace=0.0) as ours:
            upkeep = Upkeep(ours)
            hosts = [TestHost(number) for number in range(2, 6)]
            for host in hosts:
                await host.start()
                await host.connect(ours.peer_id, ours.addresses)
            await until(lambda: len(ours.peers()) == 4)
            ours.manager.protect(hosts[3].peer_id, STATIC)
            await step(upkeep, "trim peers")
            assert ours.peers() == [hosts[0].peer_id, hosts[3].peer_id], "the low tide is kept of those not protected"
            for host in hosts:
                await host.stop()

    asyncio.run(run())


def test_bad_scores_lead_to_bans_that_end() -> None:
    async def run() -> None:
        async with (
            running(2) as theirs,
            running(3) as static,
            running(1, ban_duration=0.3, static=(static.dial_text,)) as ours,
        ):
            upkeep = Upkeep(ours)
            for host in (theirs, static):
                await ours.connect(host.peer_id, host.addresses)
                ours.store.set_scores(host.peer_id, BAD, 100.0)
            await step(upkeep, "watch peers", 3)
            assert ours.peers() == [static.peer_id]
            assert ours.refuses_peer(theirs.peer_id) == "peer banned"
            assert theirs.peer_id in ours.store.load_gate().peer_bans
            await asyncio.sleep(0.4)
            await step(upkeep, "watch peers")
            assert ours.refuses_peer(theirs.peer_id) is None and ours.store.load_gate().peer_bans == {}
            text = ours.meter.text().decode()
            assert "op_node_default_p2p_peer_unbans 1.0" in text
            assert "op_node_default_p2p_peer_count 1.0" in text

    asyncio.run(run())


@pytest.mark.parametrize("options", [{"ban_peers": False}, {"ban_threshold": -200.0}])
def test_nobody_is_banned_against_the_options(options: dict[str, object]) -> None:
    async def run() -> None:
        async with running(1, **options) as ours, running(2) as theirs:
            await ours.connect(theirs.peer_id, theirs.addresses)
            ours.store.set_scores(theirs.peer_id, BAD, 100.0)
            await step(Upkeep(ours), "watch peers", 3)
            assert ours.peers() == [theirs.peer_id]

    asyncio.run(run())


def test_latencies_are_measured() -> None:
    async def run() -> None:
        async with running(1) as ours, running(2) as theirs:
            await ours.connect(theirs.peer_id, theirs.addresses)
            upkeep = Upkeep(ours)
            await step(upkeep, "ping peers")
            await until(lambda: ours.connections()[0].latency)
            await step(upkeep, "ping peers", 3)
        async with running(1, ping=False) as silent:
            assert "ping peers" not in [activity.name for activity in Upkeep(silent).periodic_tasks]

    asyncio.run(run())


def test_the_store_is_cleaned() -> None:
    async def run() -> None:
        async with running(1) as ours:
            ours.store.add_addresses(OTHER.peer_id, [tcp_multiaddr("127.0.0.1", 1)], -1.0)
            began = time.monotonic()
            await step(Upkeep(ours), "clean the peer store")
            assert time.monotonic() - began < 5 and ours.store.known() == []

    asyncio.run(run())
