"""Scores over time: decaying counts kept over restarts, scores stored for bans, and metrics [SCR3, SCR6]."""

import time

import msgspec

from rollup_node.stages.io.task import PeriodicTask
from rollup_node.stages.p2p.host.io.host import Host
from rollup_node.stages.p2p.host.io.host_api import HostEvent, PeerConnected, PeerDisconnected
from rollup_node.stages.p2p.identity.peer_id import PeerId
from rollup_node.stages.p2p.scoring.peer_score import PeerScorer, ResponseCounts
from rollup_node.stages.p2p.storage.peer_record import PeerScores, ReqRespScores

SAVE_INTERVAL = 15.0
_STEP_INTERVAL = 1.0


class ScoreService:
    """The scores of one host's peers."""

    def __init__(self, host: Host, scorer: PeerScorer) -> None:
        self._host, self._scorer = host, scorer
        self._save_at = 0.0
        self.periodic_task = PeriodicTask("scores", self._step)
        host.subscribe(self._on_host_event)

    def scores(self, peer: PeerId) -> PeerScores:
        counts = self._scorer.application.counts(peer)
        return PeerScores(self._scorer.gossip_scores(peer), ReqRespScores(*counts))

    def save(self) -> None:
        """Write the scores of all connected peers to the peerstore."""
        for peer in self._host.peers():
            self._host.peerstore.set_scores(peer, self.scores(peer), self._scorer.params.retain_score)

    def _on_host_event(self, event: HostEvent) -> None:
        if isinstance(event, PeerConnected):
            stored = self._host.peerstore.scores(event.peer)
            if stored is not None:
                counts = ResponseCounts(*msgspec.structs.astuple(stored.req_resp))
                self._scorer.application.restore(event.peer, counts, time.monotonic())
            self._scorer.application.peer_connected(event.peer)
        elif isinstance(event, PeerDisconnected):
            self._host.peerstore.set_scores(event.peer, self.scores(event.peer), self._scorer.params.retain_score)
            self._scorer.application.peer_disconnected(event.peer)

    async def _step(self) -> float:
        now = time.monotonic()
        self._scorer.application.refresh(now)
        if now >= self._save_at:
            self._save_at = now + SAVE_INTERVAL
            self.save()
            for peer in self._host.peers():
                self._observe(self.scores(peer))
        return _STEP_INTERVAL

    def _observe(self, scores: PeerScores) -> None:
        gossip, requests = scores.gossip, scores.req_resp
        for name, value in (
            ("total", gossip.total),
            ("ipColocation", gossip.ip_colocation_factor),
            ("behavioralPenalty", gossip.behavioral_penalty),
            ("blocksFirstMessage", gossip.blocks.first_message_deliveries),
            ("blocksTimeInMesh", gossip.blocks.time_in_mesh),
            ("blocksMessageDeliveries", gossip.blocks.mesh_message_deliveries),
            ("blocksInvalidMessageDeliveries", gossip.blocks.invalid_message_deliveries),
            ("reqRespValidResponses", requests.valid_responses),
            ("reqRespErrorResponses", requests.error_responses),
            ("reqRespRejectedPayloads", requests.rejected_payloads),
        ):
            self._host.meter.observe("peer_scores", value, type=name)
