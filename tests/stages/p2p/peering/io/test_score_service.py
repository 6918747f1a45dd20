"""Scores of connected peers: restored from the peerstore, saved to it, and observed as metrics [SCR6]."""

from rollup_node.stages.p2p.config import PeerScoring
from rollup_node.stages.p2p.host.io.host_api import Direction, PeerConnected, PeerDisconnected
from rollup_node.stages.p2p.peering.io.score_service import ScoreService
from rollup_node.stages.p2p.scoring.peer_score import peer_scorer
from rollup_node.stages.p2p.storage.peer_record import GossipScores, PeerScores, ReqRespScores
from tests.support.p2p.hosts import RecordingHost, running_host, running_tasks, until

PEER = b"\x00\x01peer"
STORED = PeerScores(GossipScores(total=-19.0), ReqRespScores(valid_responses=2.0, rejected_payloads=1.0))


def connect(host: RecordingHost) -> None:
    host.emit(PeerConnected(PEER, Direction.INBOUND, host.addresses[0]))


def test_counts_are_restored_on_connecting_and_saved_on_disconnecting() -> None:
    host = RecordingHost(1)
    scorer = peer_scorer(PeerScoring.LIGHT, 2)
    service = ScoreService(host, scorer)
    host.peerstore.set_scores(PEER, STORED, 100.0)
    connect(host)
    assert service.scores(PEER).req_resp == STORED.req_resp
    scorer.add_peer(PEER, ["192.0.2.1"])
    assert service.scores(PEER).gossip.total == 2 * 0.5 - 20.0
    scorer.application.on_response_error(PEER, 0.0)
    host.emit(PeerDisconnected(PEER))
    saved = host.peerstore.scores(PEER)
    assert saved is not None and saved.req_resp == ReqRespScores(2.0, 1.0, 1.0) and saved.gossip.total == -20.0


async def test_scores_of_connected_peers_are_saved_and_observed() -> None:
    async with running_host(1) as ours, running_host(2) as theirs:
        service = ScoreService(ours, peer_scorer(PeerScoring.LIGHT, 2))
        await ours.connect(theirs.peer_id, theirs.addresses)
        async with running_tasks(service.periodic_task):
            await until(lambda: ours.peerstore.scores(theirs.peer_id) is not None)
        assert 'op_node_default_peer_scores_count{type="total"} 1.0' in ours.meter.text().decode()
