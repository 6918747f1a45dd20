"""Scores over time: counts of requests decay and outlive the process in the peer store, totals go there for the judge
of bans, and both are counted (node-behaviour 13.8, 13.9)."""

import time

from rollup_node.stages.io.task import PeriodicTask
from rollup_node.stages.p2p.host.io.host import Host
from rollup_node.stages.p2p.host.io.host_api import HostEvent, PeerConnected, PeerDisconnected
from rollup_node.stages.p2p.identity.peer_id import PeerId
from rollup_node.stages.p2p.peerstore.peer_record import GossipScores, ReqRespScores
from rollup_node.stages.p2p.peerstore.peer_record import PeerScores as Record
from rollup_node.stages.p2p.scoring.application_score import ResponseCounts
from rollup_node.stages.p2p.scoring.peer_score import PeerScorer

SAVE_SECONDS = 15.0
_STEP_SECONDS = 1.0


class ScoreService:
    """Keeps the scores of one host's peers."""

    def __init__(self, host: Host, scores: PeerScorer) -> None:
        self._host, self._scores = host, scores
        self._save_at = 0.0
        self.activity = PeriodicTask("scores", self._step)
        host.subscribe(self._on_host_event)

    def scores(self, peer: PeerId) -> Record:
        """A peer's scores as they are now."""
        total = self._scores.snapshot(peer)
        return Record(
            GossipScores(
                total=total.score,
                ip_colocation_factor=total.ip_colocation_factor,
                behavioral_penalty=total.behaviour_penalty,
            ),
            ReqRespScores(*self._scores.application.counts(peer)),
        )

    def save(self) -> None:
        """Writes the scores of all connected peers to the peer store."""
        for peer in self._host.peers():
            self._host.peerstore.set_scores(peer, self.scores(peer), self._scores.params.retain_score)

    def _on_host_event(self, event: HostEvent) -> None:
        if isinstance(event, PeerConnected):
            kept = self._host.peerstore.scores(event.peer)
            if kept is not None:
                counts = kept.req_resp
                self._scores.application.restore(
                    event.peer,
                    ResponseCounts(counts.valid_responses, counts.error_responses, counts.rejected_payloads),
                    time.monotonic(),
                )
            self._scores.application.peer_connected(event.peer)
        elif isinstance(event, PeerDisconnected):
            self._host.peerstore.set_scores(event.peer, self.scores(event.peer), self._scores.params.retain_score)
            self._scores.application.peer_disconnected(event.peer)

    async def _step(self) -> float:
        now = time.monotonic()
        self._scores.application.refresh(now)
        if now >= self._save_at:
            self._save_at = now + SAVE_SECONDS
            self.save()
            for peer in self._host.peers():
                self._observe(self.scores(peer))
        return _STEP_SECONDS

    def _observe(self, record: Record) -> None:
        gossip, requests = record.gossip, record.req_resp
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
