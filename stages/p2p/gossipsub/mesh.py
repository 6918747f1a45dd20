"""The meshes: per topic the few peers to which every message is sent (gossipsub v1.1) [GSP7, GSP8]."""

from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from rollup_node.stages.p2p.gossipsub.params import MAX_PRUNE_BACKOFF, GossipParams
from rollup_node.stages.p2p.gossipsub.peers import PeerTable, RandomSource, TraceEvent
from rollup_node.stages.p2p.gossipsub.rpc import ControlMessage, Prune, Rpc
from rollup_node.stages.p2p.identity.peer_id import PeerId
from rollup_node.stages.p2p.scoring.peer_score import PeerScorer


class MeshChange(NamedTuple):
    """What a heartbeat changed for one peer: the topics whose mesh it joined, and those whose mesh it left."""

    grafted: list[str]
    pruned: list[str]


class Meshes:
    """Mesh members by topic that we have joined. Every member has a stream."""

    def __init__(self, params: GossipParams, peers: PeerTable, scorer: PeerScorer, random: RandomSource) -> None:
        self._params, self._peers, self._scorer, self._random = params, peers, scorer, random
        self.members: dict[str, dict[PeerId, None]] = {}
        self.backoff = PruneBackoff(params.backoff_slack)

    def join(self, topic: str, favoured: Iterable[PeerId]) -> None:
        """Start the mesh of a topic; `favoured` peers (its fanout) are grafted before others."""
        members = self.members[topic] = {}
        allowed = [peer for peer in favoured if self._may_graft(topic, peer)]
        allowed += self.select_peers(
            topic, self._params.d - len(allowed), lambda peer: self._may_graft(topic, peer), allowed
        )
        for peer in allowed:
            members[peer] = None
            self._peers.event_counts[TraceEvent.GRAFT] += 1
            self._peers.send(peer, Rpc(control=ControlMessage(graft=(topic,))))

    def leave(self, topic: str, now: float) -> None:
        """Prunes all members of a topic's mesh and removes it."""
        seconds = self._params.unsubscribe_backoff
        for peer in self.members.pop(topic):
            self._peers.event_counts[TraceEvent.PRUNE] += 1
            self._peers.send(peer, Rpc(control=ControlMessage(prune=(self.make_prune(peer, topic, seconds),))))
            self.backoff.add(topic, peer, seconds, now)

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

    def make_prune(self, peer: PeerId, topic: str, seconds: float | None = None) -> Prune:
        backoff = self._params.prune_backoff if seconds is None else seconds
        return Prune(topic, int(backoff) if self._peers.states[peer].supports_backoff else None)

    def heartbeat(self, tick: int, score: Callable[[PeerId], float], now: float) -> dict[PeerId, MeshChange]:
        """Brings every mesh back within its bounds; returns the changes by peer."""
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
        """Grafts a few peers above the median score into a mesh whose median is poor."""
        members = self.members[topic]
        if len(members) < 2:
            return
        median = sorted(map(score, members))[len(members) // 2]
        if median < self._scorer.thresholds.opportunistic_graft:
            self._graft(topic, self._params.opportunistic_graft_peers, lambda peer: score(peer) > median)

    def _graft(self, topic: str, count: int, fits: Callable[[PeerId], bool]) -> None:
        members = self.members[topic]
        chosen = self.select_peers(
            topic, count, lambda peer: not self.backoff.blocks_graft(topic, peer) and fits(peer), members
        )
        members.update(dict.fromkeys(chosen))

    def _prune(self, topic: str, peer: PeerId, now: float) -> None:
        del self.members[topic][peer]
        self.backoff.add(topic, peer, self._params.prune_backoff, now)

    def _may_graft(self, topic: str, peer: PeerId) -> bool:
        return not self.backoff.blocks_graft(topic, peer) and self._scorer.score(peer) >= 0

    def select_peers(
        self, topic: str, count: int, fits: Callable[[PeerId], bool], without: Collection[PeerId] = ()
    ) -> list[PeerId]:
        """At most `count` random peers of a topic that fit and are not in `without`."""
        if count <= 0:
            return []
        mesh_candidates = list(self._peers.mesh_candidates(topic, lambda peer: peer not in without and fits(peer)))
        self._random.shuffle(mesh_candidates)
        return mesh_candidates[:count]


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


class Fanout:
    """Fanout peers by topic, and when each topic was last published to."""

    def __init__(self, params: GossipParams, peers: PeerTable, meshes: Meshes) -> None:
        self._params, self._peers, self._meshes = params, peers, meshes
        self.members: dict[str, dict[PeerId, None]] = {}
        self._published_at: dict[str, float] = {}

    def peers_for(self, topic: str, fits: Callable[[PeerId], bool], now: float) -> Collection[PeerId]:
        """Return the peers to send a message to in a topic that we have not joined."""
        self._published_at[topic] = now
        members = self.members.setdefault(topic, {})
        if not members:
            members.update(dict.fromkeys(self._meshes.select_peers(topic, self._params.d, fits)))
        return members.keys()

    def remove_topic(self, topic: str) -> list[PeerId]:
        """End the fanout of a topic that is being joined; returns its peers."""
        self._published_at.pop(topic, None)
        return list(self.members.pop(topic, ()))

    def remove_peer(self, peer: PeerId) -> None:
        for members in self.members.values():
            members.pop(peer, None)

    def heartbeat(self, fits: Callable[[PeerId], bool], now: float) -> None:
        """End topics not published to within the fanout TTL and replaces peers that left or do not fit."""
        for topic, published_at in list(self._published_at.items()):
            if published_at + self._params.fanout_ttl < now:
                self.remove_topic(topic)
        for topic, members in self.members.items():
            subscribed = self._peers.topic_peers(topic)
            for peer in [peer for peer in members if peer not in subscribed or not fits(peer)]:
                del members[peer]
            more = self._meshes.select_peers(topic, self._params.d - len(members), fits, members)
            members.update(dict.fromkeys(more))
