"""The meshes: per topic the few peers to which every message is sent (gossipsub v1.1) [GSP7, GSP8]."""

from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from rollup_node.stages.p2p.addresses.peer_id import PeerId
from rollup_node.stages.p2p.gossipsub.params import MAX_PRUNE_BACKOFF, GossipParams
from rollup_node.stages.p2p.gossipsub.peers import PeerTable, RandomSource, TraceEvent
from rollup_node.stages.p2p.gossipsub.rpc import Prune
from rollup_node.stages.p2p.peering.peer_score import PeerScorer


class MeshChange(NamedTuple):
    """What a heartbeat changed for one peer: the topics whose mesh it joined, and those whose mesh it left."""

    grafted: list[str]
    pruned: list[str]


class Meshes:
    """Mesh members by topic. Every member has a stream."""

    def __init__(
        self, params: GossipParams, topics: Iterable[str], peers: PeerTable, scorer: PeerScorer, random: RandomSource
    ) -> None:
        self._params, self._peers, self._scorer, self._random = params, peers, scorer, random
        self.members: dict[str, dict[PeerId, None]] = {topic: {} for topic in topics}
        self.backoff = PruneBackoff(params.backoff_slack)

    def handle_graft(self, peer: PeerId, topic: str, now: float) -> bool:
        """Handle a peer's GRAFT; returns False if it must be answered with PRUNE."""
        members = self.members.get(topic)
        if members is None or peer in members:
            return True
        end = self.backoff.ends_at(topic, peer)
        # A GRAFT during backoff costs a penalty, and a second one when it comes so soon after our PRUNE that the peer
        # cannot have missed it.
        if end is not None and now < end:
            is_flood = now < end + self._params.graft_flood_threshold - self._params.prune_backoff
            self._scorer.add_penalty(peer, 2 if is_flood else 1)
        elif self._scorer.score(peer) >= 0 and (len(members) < self._params.d_hi or self._peers.states[peer].outbound):
            members[peer] = None
            self._peers.event_counts[TraceEvent.GRAFT] += 1
            return True
        self.backoff.add(topic, peer, self._params.prune_backoff, now)
        return False

    def handle_prune(self, peer: PeerId, prune: Prune, now: float) -> None:
        """Handle a peer's PRUNE and its backoff, of at most an hour."""
        members = self.members.get(prune.topic)
        if members is None:
            return
        if peer in members:
            del members[peer]
            self._peers.event_counts[TraceEvent.PRUNE] += 1
        seconds = min(float(prune.backoff), MAX_PRUNE_BACKOFF) if prune.backoff else self._params.prune_backoff
        self.backoff.add(prune.topic, peer, seconds, now)

    def remove_peer(self, peer: PeerId) -> None:
        for topic in self.members:
            self.remove_from(topic, peer)

    def remove_from(self, topic: str, peer: PeerId) -> None:
        """Remove a peer from the mesh of a topic without a PRUNE."""
        self.members.get(topic, {}).pop(peer, None)

    def make_prune(self, peer: PeerId, topic: str) -> Prune:
        return Prune(topic, int(self._params.prune_backoff) if self._peers.states[peer].supports_backoff else None)

    def heartbeat(self, tick: int, score: Callable[[PeerId], float], now: float) -> dict[PeerId, MeshChange]:
        """Bring every mesh back within its bounds; returns the changes by peer."""
        if tick % self._params.backoff_clear_ticks == 0:
            self.backoff.clear_expired(now)
        changes: dict[PeerId, MeshChange] = {}
        for topic, members in self.members.items():
            before = dict(members)
            self._prune_negative_scores(topic, score, now)
            self._graft_below_d_lo(topic, score)
            self._prune_above_d_hi(topic, score, now)
            self._graft_outbound(topic, score)
            if tick % self._params.opportunistic_graft_ticks == 0:
                self._opportunistic_graft(topic, score)
            self._record_changes(topic, before, changes)
        return changes

    def _record_changes(self, topic: str, before: Collection[PeerId], changes: dict[PeerId, MeshChange]) -> None:
        members = self.members[topic]
        for peer in members:
            if peer not in before:
                changes.setdefault(peer, MeshChange([], [])).grafted.append(topic)
                self._peers.event_counts[TraceEvent.GRAFT] += 1
        for peer in before:
            if peer not in members:
                changes.setdefault(peer, MeshChange([], [])).pruned.append(topic)
                self._peers.event_counts[TraceEvent.PRUNE] += 1

    def _prune_negative_scores(self, topic: str, score: Callable[[PeerId], float], now: float) -> None:
        for peer in [peer for peer in self.members[topic] if score(peer) < 0]:
            self._prune(topic, peer, now)

    def _graft_below_d_lo(self, topic: str, score: Callable[[PeerId], float]) -> None:
        members = self.members[topic]
        if len(members) < self._params.d_lo:
            self._graft(topic, self._params.d - len(members), lambda peer: score(peer) >= 0)

    def _prune_above_d_hi(self, topic: str, score: Callable[[PeerId], float], now: float) -> None:
        """Keep the best scores and random others up to D, of which at least D_out are peers that we dialled."""
        members, params = self.members[topic], self._params
        if len(members) <= params.d_hi:
            return
        ranked = list(members)
        self._random.shuffle(ranked)
        ranked.sort(key=score, reverse=True)
        best, rest = ranked[: params.d_score], ranked[params.d_score :]
        self._random.shuffle(rest)
        ranked = best + rest
        kept = ranked[: params.d]
        lacking = params.d_out - sum(self._peers.states[peer].outbound for peer in kept)
        if lacking > 0:
            dialled = [peer for peer in ranked[params.d :] if self._peers.states[peer].outbound][:lacking]
            inbound = [peer for peer in kept if not self._peers.states[peer].outbound]
            kept = [peer for peer in kept if peer not in set(inbound[len(inbound) - len(dialled) :])] + dialled
        for peer in [peer for peer in ranked if peer not in set(kept)]:
            self._prune(topic, peer, now)

    def _graft_outbound(self, topic: str, score: Callable[[PeerId], float]) -> None:
        members, peers = self.members[topic], self._peers.states
        lacking = self._params.d_out - sum(peers[peer].outbound for peer in members)
        if lacking > 0 and len(members) >= self._params.d_lo:
            self._graft(topic, lacking, lambda peer: peers[peer].outbound and score(peer) >= 0)

    def _opportunistic_graft(self, topic: str, score: Callable[[PeerId], float]) -> None:
        """Graft a few peers above the median score into a mesh whose median is poor."""
        members = self.members[topic]
        if len(members) < 2:
            return
        median = sorted(map(score, members))[len(members) // 2]
        if median < self._scorer.thresholds.opportunistic_graft:
            self._graft(topic, self._params.opportunistic_graft_peers, lambda peer: score(peer) > median)

    def _graft(self, topic: str, count: int, fits: Callable[[PeerId], bool]) -> None:
        """Graft at most `count` random peers of the topic that fit."""
        members = self.members[topic]
        candidates = list(
            self._peers.mesh_candidates(
                topic, lambda peer: peer not in members and not self.backoff.blocks_graft(topic, peer) and fits(peer)
            )
        )
        self._random.shuffle(candidates)
        members.update(dict.fromkeys(candidates[:count]))

    def _prune(self, topic: str, peer: PeerId, now: float) -> None:
        del self.members[topic][peer]
        self.backoff.add(topic, peer, self._params.prune_backoff, now)


MAX_PER_TOPIC = 10_000


class PruneBackoff:
    """The end of each peer's backoff; we wait `slack` seconds longer, as the remote clock may be behind."""

    def __init__(self, slack: float) -> None:
        self._slack = slack
        self._ends: dict[str, dict[PeerId, float]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._ends.values()))

    def add(self, topic: str, peer: PeerId, seconds: float, now: float) -> None:
        """Start or prolong a backoff; never shortens one."""
        ends = self._ends.setdefault(topic, {})
        ends[peer] = max(now + seconds, ends.pop(peer, 0.0))
        if len(ends) > MAX_PER_TOPIC:
            del ends[next(iter(ends))]

    def ends_at(self, topic: str, peer: PeerId) -> float | None:
        """When the peer's backoff ends or has ended; None if it has none."""
        return self._ends.get(topic, {}).get(peer)

    def blocks_graft(self, topic: str, peer: PeerId) -> bool:
        return peer in self._ends.get(topic, ())

    def clear_expired(self, now: float) -> None:
        for topic, ends in list(self._ends.items()):
            self._ends[topic] = {peer: end for peer, end in ends.items() if end + self._slack >= now}
