"""The peer manager: periodic tasks that dial, trim, ban and measure peers.

It keeps static peers connected, dials known peers while there are too few, trims when there are too many, bans peers
by score and lifts expired bans, and measures latencies [NET6, NET8, NET9, DSC8, SCR7, SCR8, PST4]."""

import asyncio
import random
import time
from contextlib import suppress

from rollup_node.stages.io.log.logger import Logger
from rollup_node.stages.io.task import PeriodicTask
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.log_fields import Fields
from rollup_node.stages.p2p.addresses.peer_id import PeerId, peer_id_text, short_peer_id
from rollup_node.stages.p2p.gating.connections import PeerBackoff, TrimCandidate
from rollup_node.stages.p2p.gating.peer_drops import PeerDropReason
from rollup_node.stages.p2p.host.io.host import Host
from rollup_node.stages.p2p.host.io.host_api import DialError, Direction, HostEvent, PeerConnected, PeerDisconnected
from rollup_node.stages.p2p.host.io.services import measure_latency
from rollup_node.stages.p2p.peering.peer_info import parse_static_peers
from rollup_node.stages.p2p.peering.peer_score import PeerScorer
from rollup_node.stages.p2p.storage.io.peerstore import STATIC_TTL
from rollup_node.stages.p2p.storage.peer_record import PeerMetadata, PeerScores

SAVE_INTERVAL = 15.0
_STEP_INTERVAL = 1.0


class ScoreService:
    """The scores of one host's peers: their counts are kept over restarts, those of bans are stored [SCR3, SCR6]."""

    def __init__(self, host: Host, scorer: PeerScorer) -> None:
        self._host, self._scorer = host, scorer
        self._save_at = 0.0
        self.periodic_task = PeriodicTask("scores", self._step)
        host.subscribe(self._on_host_event)

    def scores(self, peer: PeerId) -> PeerScores:
        return PeerScores(self._scorer.gossip_scores(peer), self._scorer.application.counts(peer))

    def save(self) -> None:
        """Write the scores of all connected peers to the peerstore."""
        for peer in self._host.peers():
            self._host.peerstore.set_record(peer, self.scores(peer), self._scorer.retained_seconds)

    def _on_host_event(self, event: HostEvent) -> None:
        if isinstance(event, PeerConnected):
            stored = self._host.peerstore.record(event.peer, PeerScores)
            if stored is not None:
                self._scorer.application.restore(event.peer, stored.req_resp, time.monotonic())
            self._scorer.application.connected.add(event.peer)
        elif isinstance(event, PeerDisconnected):
            self._host.peerstore.set_record(event.peer, self.scores(event.peer), self._scorer.retained_seconds)
            self._scorer.application.connected.discard(event.peer)

    async def _step(self) -> float:
        now = time.monotonic()
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


STATIC = "static"
API_PROTECTED = "api-protected"
PING_INTERVAL = 180.0
DIAL_FAST_INTERVAL, DIAL_SLOW_INTERVAL = 5.0, 20.0
_DIAL_WORKERS = 4
_DIAL_ROUND_SECONDS = 30.0
_TRIM_INTERVAL = 10.0
_GC_INTERVAL = 7200.0
_STATIC_MAX_BACKOFF = 60.0
_MIN_DELAY = 0.05
_STABLE_SECONDS = 30.0
_PING_BURST = 10
_DIAL_MAX_BACKOFF = 600.0

log = Logger("p2p")


class PeerManager:
    """The periodic tasks of one host. Static peers are protected, exempt from bans, and redialled for ever."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.static_peers = parse_static_peers(host.config.static, host.peer_id)
        self._static_backoff = PeerBackoff(maximum=_STATIC_MAX_BACKOFF)
        self._dial_backoff = PeerBackoff(initial=DIAL_FAST_INTERVAL, maximum=_DIAL_MAX_BACKOFF)
        self._connected_at: dict[PeerId, float] = {}
        self._to_check: list[PeerId] = []
        self._to_ping: list[PeerId] = []
        self._ping_round_due = 0.0
        for peer, addresses in self.static_peers.items():
            host.connection_manager.protect(peer, STATIC)
            host.peerstore.add_addresses(peer, addresses, STATIC_TTL)
        self._redial_task = PeriodicTask("redial static peers", self._redial_static)
        self.periodic_tasks: tuple[PeriodicTask, ...] = (
            self._redial_task,
            PeriodicTask("dial known peers", self._dial_known),
            PeriodicTask("trim peers", self._trim),
            PeriodicTask("monitor peers", self._monitor),
            *((PeriodicTask("ping peers", self._ping),) if host.config.ping else ()),
            PeriodicTask("collect peerstore garbage", self._collect_garbage),
        )
        host.subscribe(self._on_host_event)

    def _on_host_event(self, event: HostEvent) -> None:
        """Count a connection as a success once it has lasted a while: a peer that always hangs up gets backoff."""
        if isinstance(event, PeerConnected):
            self._connected_at[event.peer] = time.monotonic()
        elif isinstance(event, PeerDisconnected):
            backoff = self._static_backoff if event.peer in self.static_peers else self._dial_backoff
            now = time.monotonic()
            if now - self._connected_at.pop(event.peer, now) >= _STABLE_SECONDS:
                backoff.succeeded(event.peer)
            else:
                backoff.failed(event.peer, now)
            if event.peer in self.static_peers:
                self._redial_task.wake.set()

    async def _redial_static(self) -> float:
        """Dial the static peers that are not connected and due; returns the delay until the next one is due."""
        missing = [peer for peer in self.static_peers if self._host.connection(peer) is None]
        now = time.monotonic()
        due = [peer for peer in missing if self._static_backoff.retry_at(peer) <= now]
        await asyncio.gather(*(self._dial_static(peer) for peer in due))
        missing = [peer for peer in self.static_peers if self._host.connection(peer) is None]
        delays = [self._static_backoff.retry_at(peer) - time.monotonic() for peer in missing]
        return max(_MIN_DELAY, min(delays, default=_STATIC_MAX_BACKOFF))

    async def _dial_static(self, peer: PeerId) -> None:
        addresses = self.static_peers[peer]
        self._host.peerstore.add_addresses(peer, addresses, STATIC_TTL)
        try:
            await self._host.connect(peer, addresses)
        except DialError as error:
            delay = self._static_backoff.failed(peer, time.monotonic())
            fields: Fields = {"peer": peer_id_text(peer), "error": error, "retry_in_s": delay}
            log.warn("cannot connect to static peer", code=Code.PEER_UNREACHABLE.text, **fields)

    async def _dial_known(self) -> float:
        """Dial known peers while there are too few, those with a node record first: the others may be false."""
        if len(self._host.peers()) >= self._host.config.peers_lo:
            return DIAL_SLOW_INTERVAL
        candidates = self._candidates()
        random.shuffle(candidates)
        candidates.sort(key=lambda peer: self._host.peerstore.record(peer, PeerMetadata) is not None)
        with suppress(TimeoutError):
            async with asyncio.timeout(_DIAL_ROUND_SECONDS):
                await asyncio.gather(*(self._dial_worker(candidates) for _ in range(_DIAL_WORKERS)))
        return DIAL_FAST_INTERVAL

    def _candidates(self) -> list[PeerId]:
        host, now = self._host, time.monotonic()
        return [
            peer
            for peer in host.peerstore.peers_with_addresses()
            if host.connection(peer) is None
            and peer not in self.static_peers
            and self._dial_backoff.retry_at(peer) <= now
            and host.intercept_peer(peer) is None
            and self._is_of_our_chain(peer)
        ]

    def _is_of_our_chain(self, peer: PeerId) -> bool:
        metadata = self._host.peerstore.record(peer, PeerMetadata)
        return metadata is None or metadata.chain_id in (0, self._host.config.rollup.l2_chain_id)

    async def _dial_worker(self, candidates: list[PeerId]) -> None:
        """Dial candidates until none is left or there are enough peers."""
        while candidates and len(self._host.peers()) < self._host.config.peers_lo:
            peer = candidates.pop()
            try:
                async with asyncio.timeout(self._host.config.dial_timeout):
                    await self._host.connect(peer)
            except (DialError, TimeoutError) as error:
                self._dial_backoff.failed(peer, time.monotonic())
                log.debug("cannot connect to peer", peer=short_peer_id(peer), error=str(error) or "timeout")

    async def _trim(self) -> float:
        connected = [
            TrimCandidate(peer.peer, peer.oldest.opened_at, peer.oldest.direction is Direction.INBOUND, peer.streams)
            for peer in self._host.connections()
        ]
        for peer in self._host.connection_manager.peers_to_trim(connected, time.monotonic()):
            self._host.disconnect(peer, PeerDropReason.TOO_MANY_PEERS)
        return _TRIM_INTERVAL

    async def _monitor(self) -> float:
        """Lift expired bans, check the score of one peer, and update metrics [SCR7, SCR8]."""
        host = self._host
        expired = host.connection_gater.remove_expired_bans(time.time())
        if expired:
            host.save_gater()
            host.meter.count("p2p_peer_unbans", expired)
        self._to_check = self._to_check or host.peers()
        if self._to_check:
            self._ban_if_below_threshold(self._to_check.pop())
        self._update_metrics()
        return 1.0

    def _ban_if_below_threshold(self, peer: PeerId) -> None:
        host, config = self._host, self._host.config
        if not config.ban_peers or peer in self.static_peers or host.connection(peer) is None:
            return
        scores = host.peerstore.record(peer, PeerScores)
        if scores is not None and scores.gossip.total < config.ban_threshold:
            host.ban(peer, config.ban_duration, f"score {scores.gossip.total:.1f} is below {config.ban_threshold:g}")

    def _update_metrics(self) -> None:
        host = self._host
        connections = host.connections()
        host.meter.set("p2p_peer_count", len(connections))
        host.meter.set("p2p_stream_count", sum(info.streams for info in connections))
        host.meter.set("p2p_held_bytes", host.held.total)
        host.meter.set("p2p_bandwidth_bytes_total", host.bytes_in, direction="in")
        host.meter.set("p2p_bandwidth_bytes_total", host.bytes_out, direction="out")

    async def _ping(self) -> float:
        """Ping all peers every three minutes: ten at once, then one a second [NET6]."""
        now = time.monotonic()
        if not self._to_ping and now >= self._ping_round_due:
            self._to_ping, self._ping_round_due = self._host.peers(), now + PING_INTERVAL
            burst = _PING_BURST
        else:
            burst = 1
        for peer in self._to_ping[:burst]:
            self._host.spawn(measure_latency(self._host, peer))
        del self._to_ping[:burst]
        return 1.0

    async def _collect_garbage(self) -> float:
        self._host.peerstore.collect_garbage()
        return _GC_INTERVAL
