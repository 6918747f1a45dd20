"""The periodic tasks of the peer manager, driven as the runtime drives them."""

import asyncio
import time

import pytest

from rollup_node.stages.p2p.addresses.multiaddr import tcp_multiaddr
from rollup_node.stages.p2p.addresses.peer_id import NetworkIdentity
from rollup_node.stages.p2p.config import PeerScoring
from rollup_node.stages.p2p.gating.peer_drops import PeerDropReason
from rollup_node.stages.p2p.host.io.host_api import Direction, PeerConnected, PeerDisconnected
from rollup_node.stages.p2p.peering.io.peer_manager import STATIC, PeerManager, ScoreService
from rollup_node.stages.p2p.peering.peer_score import PeerScorer
from rollup_node.stages.p2p.storage.peer_record import GossipScores, PeerMetadata, PeerScores, ReqRespScores
from tests.support.p2p.hosts import RecordingHost, running_host, running_tasks
from tests.support.timing.conditions import until

BAD = PeerScores(GossipScores(total=-101.0))


async def step(upkeep: PeerManager, name: str, times: int = 1) -> None:
    """Run steps of one periodic task."""
    activity = next(activity for activity in upkeep.periodic_tasks if activity.name == name)
    for _ in range(times):
        await activity.step()


@pytest.mark.option("p2p.static")
async def test_static_peers_are_redialled() -> None:
    async with running_host(2) as theirs:
        port = theirs.port
        async with running_host(1, static=(theirs.multiaddr, "")) as ours:
            upkeep = PeerManager(ours)
            assert theirs.peer_id in upkeep.static_peers and ours.connection_manager.is_protected(theirs.peer_id)
            async with running_tasks(*upkeep.periodic_tasks):
                await until(lambda: ours.connections() and theirs.connections())
                theirs.disconnect(ours.peer_id, PeerDropReason.BY_OPERATOR)
                await ours.wait_for(PeerDisconnected)
                await until(ours.connections)
                await theirs.stop()
                await until(lambda: not ours.connections())
                async with running_host(2, listen_tcp=port):
                    await until(ours.connections, 20)


async def test_a_static_peer_is_redialled_however_long_it_was_connected() -> None:
    """Its addresses leave the peerstore after seven days without a dial [PST4], as those that it identified itself by
    do after an hour. op-node dials what is in its peerstore alone."""
    async with running_host(2) as theirs, running_host(1, static=(theirs.multiaddr,)) as ours:
        upkeep = PeerManager(ours)
        async with running_tasks(*upkeep.periodic_tasks):
            await until(lambda: ours.connections() and theirs.connections())
            days, ours.peerstore._clock = 8 * 86400, lambda: time.time() + days
            await step(upkeep, "collect peerstore garbage")
            assert ours.peerstore.addresses(theirs.peer_id) == []
            theirs.disconnect(ours.peer_id, PeerDropReason.BY_OPERATOR)
            await ours.wait_for(PeerDisconnected)
            await until(ours.connections)
            assert ours.peerstore.addresses(theirs.peer_id) == list(theirs.addresses)


async def test_a_static_peer_that_disconnects_at_once_is_backed_off() -> None:
    async with running_host(2) as theirs, running_host(1, static=(theirs.multiaddr,)) as ours:
        theirs.connection_gater.blocked_peers.add(ours.peer_id)
        async with running_tasks(*PeerManager(ours).periodic_tasks):
            await ours.wait_for(PeerDisconnected)
            await asyncio.sleep(2.5)
        assert sum(isinstance(event, PeerDisconnected) for event in ours.events) <= 3


async def test_known_peers_are_dialled_while_there_are_too_few() -> None:
    async with (
        running_host(1, peers_lo=2, peers_hi=4) as ours,
        running_host(2) as a,
        running_host(3) as b,
        running_host(4) as other,
    ):
        upkeep = PeerManager(ours)
        gone = NetworkIdentity(b"\x09" * 32).peer_id
        ours.peerstore.add_addresses(gone, [tcp_multiaddr("127.0.0.1", 1)], 100.0)
        ours.peerstore.add_addresses(other.peer_id, other.addresses, 100.0)
        ours.peerstore.set_record(other.peer_id, PeerMetadata("", 1))
        ours.peerstore.add_addresses(a.peer_id, a.addresses, 100.0)
        ours.peerstore.set_record(a.peer_id, PeerMetadata("", ours.config.rollup.l2_chain_id))
        await step(upkeep, "dial known peers")
        assert ours.peers() == [a.peer_id]
        ours.peerstore.add_addresses(b.peer_id, b.addresses, 100.0)
        await step(upkeep, "dial known peers")
        assert sorted(ours.peers()) == sorted([a.peer_id, b.peer_id])
        before = ours.meter.text()
        await step(upkeep, "dial known peers")
        assert ours.meter.text() == before


async def test_discovered_peers_are_dialled_before_claimed_ones() -> None:
    async with running_host(1, peers_lo=1, peers_hi=2) as ours, running_host(2) as result:
        for number in range(3, 200):
            ours.peerstore.add_addresses(
                NetworkIdentity(bytes([number]) * 32).peer_id, [tcp_multiaddr("127.0.0.1", 1)], 100.0
            )
        ours.peerstore.add_addresses(result.peer_id, result.addresses, 100.0)
        ours.peerstore.set_record(result.peer_id, PeerMetadata("", ours.config.rollup.l2_chain_id))
        await step(PeerManager(ours), "dial known peers")
        assert ours.peers() == [result.peer_id]
        assert len(ours.dialer.last_errors) < 100


@pytest.mark.option("p2p.peers.grace", "p2p.peers.hi", "p2p.peers.lo")
async def test_excess_peers_are_trimmed() -> None:
    async with running_host(1, peers_lo=1, peers_hi=2, peers_grace=0.0) as ours:
        upkeep = PeerManager(ours)
        hosts = [RecordingHost(number) for number in range(2, 6)]
        for host in hosts:
            await host.start()
            await host.connect(ours.peer_id, ours.addresses)
        await until(lambda: len(ours.peers()) == 4)
        ours.connection_manager.protect(hosts[3].peer_id, STATIC)
        await step(upkeep, "trim peers")
        assert ours.peers() == [hosts[0].peer_id, hosts[3].peer_id], "the low tide is kept of those not protected"
        for host in hosts:
            await host.stop()


@pytest.mark.option("p2p.ban.duration")
@pytest.mark.fault("F50")
async def test_low_scores_lead_to_bans_that_expire() -> None:
    async with (
        running_host(2) as theirs,
        running_host(3) as static,
        running_host(1, ban_duration=0.3, static=(static.multiaddr,)) as ours,
    ):
        upkeep = PeerManager(ours)
        for host in (theirs, static):
            await ours.connect(host.peer_id, host.addresses)
            ours.peerstore.set_record(host.peer_id, BAD, 100.0)
        await step(upkeep, "monitor peers", 3)
        assert ours.peers() == [static.peer_id]
        assert ours.intercept_peer(theirs.peer_id) is PeerDropReason.PEER_BANNED
        assert theirs.peer_id in ours.peerstore.load_gater().peer_bans
        await asyncio.sleep(0.4)
        await step(upkeep, "monitor peers")
        assert ours.intercept_peer(theirs.peer_id) is None and ours.peerstore.load_gater().peer_bans == {}
        text = ours.meter.text().decode()
        assert "op_node_default_p2p_peer_unbans 1.0" in text
        assert "op_node_default_p2p_peer_count 1.0" in text


@pytest.mark.option("p2p.ban.peers", "p2p.ban.threshold")
@pytest.mark.parametrize("options", [{"ban_peers": False}, {"ban_threshold": -200.0}])
async def test_bans_respect_the_options(options: dict[str, object]) -> None:
    async with running_host(1, **options) as ours, running_host(2) as theirs:
        await ours.connect(theirs.peer_id, theirs.addresses)
        ours.peerstore.set_record(theirs.peer_id, BAD, 100.0)
        await step(PeerManager(ours), "monitor peers", 3)
        assert ours.peers() == [theirs.peer_id]


@pytest.mark.option("p2p.ping")
async def test_latencies_are_measured() -> None:
    async with running_host(1) as ours, running_host(2) as theirs:
        await ours.connect(theirs.peer_id, theirs.addresses)
        upkeep = PeerManager(ours)
        await step(upkeep, "ping peers")
        await until(lambda: ours.connections()[0].latency)
        await step(upkeep, "ping peers", 3)
    async with running_host(1, ping=False) as silent:
        assert "ping peers" not in [activity.name for activity in PeerManager(silent).periodic_tasks]


PEER = b"\x00\x01peer"
STORED = PeerScores(GossipScores(total=-19.0), ReqRespScores(valid_responses=2.0, rejected_payloads=1.0))


def connect(host: RecordingHost) -> None:
    host.emit(PeerConnected(PEER, Direction.INBOUND, host.addresses[0]))


def test_counts_are_restored_on_connecting_and_saved_on_disconnecting() -> None:
    host = RecordingHost(1)
    scorer = PeerScorer(PeerScoring.LIGHT, 2)
    service = ScoreService(host, scorer)
    host.peerstore.set_record(PEER, STORED, 100.0)
    connect(host)
    assert service.scores(PEER).req_resp == STORED.req_resp
    scorer.add_peer(PEER, ["192.0.2.1"])
    assert service.scores(PEER).gossip.total == 2 * 0.5 - 20.0
    scorer.application.on_response_error(PEER, 0.0)
    host.emit(PeerDisconnected(PEER))
    saved = host.peerstore.record(PEER, PeerScores)
    assert saved is not None and saved.req_resp == ReqRespScores(2.0, 1.0, 1.0) and saved.gossip.total == -20.0


async def test_scores_of_connected_peers_are_saved_and_observed() -> None:
    async with running_host(1) as ours, running_host(2) as theirs:
        service = ScoreService(ours, PeerScorer(PeerScoring.LIGHT, 2))
        await ours.connect(theirs.peer_id, theirs.addresses)
        async with running_tasks(service.periodic_task):
            await until(lambda: ours.peerstore.record(theirs.peer_id, PeerScores) is not None)
        assert 'op_node_default_peer_scores_count{type="total"} 1.0' in ours.meter.text().decode()
