"""The meshes: per topic the few peers to whom every message is pushed, and their upkeep by GRAFT, PRUNE and backoff
(Gossipsub v1.1, with the numbers of node-behaviour 13.7). Peer exchange is off."""

from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from rollup_node.stages.p2p.gossipsub.params import MAX_PRUNE_BACKOFF, GossipParams
from rollup_node.stages.p2p.gossipsub.peers import PeerTable, RandomSource
from rollup_node.stages.p2p.gossipsub.prune_backoff import PruneBackoff
from rollup_node.stages.p2p.gossipsub.rpc import ControlMessage, Prune, Rpc
from rollup_node.stages.p2p.identity.peer_id import PeerId
from rollup_node.stages.p2p.scoring.peer_score import PeerScorer


class MeshChange(NamedTuple):
    """What a heartbeat changes about one peer: topics into whose mesh it came and from whose it went."""

    grafted: list[str]
    pruned: list[str]


class Meshes:
    """Members by topic we have joined. Whoever is a member has a stream."""

    def __init__(self, params: GossipParams, peers: PeerTable, scores: PeerScorer, random: RandomSource) -> None:
        self._params = params
        self._peers = peers
        self._scores = scores
        self._random = random
        self.members: dict[str, dict[PeerId, None]] = {}
        self.backoff = PruneBackoff(params.backoff_slack)

    # --- our topics ----------------------------------------------------------------------------------------------

    def join(self, topic: str, favoured: Iterable[PeerId]) -> None:
        """Begins the mesh of a topic; `favoured` peers (of its fanout) come before others."""
        members = self.members[topic] = {}
        allowed = [peer for peer in favoured if self._may_graft(topic, peer)]
        allowed += self.select_peers(
            topic, self._params.d - len(allowed), lambda peer: self._may_graft(topic, peer), allowed
        )
        for peer in allowed:
            members[peer] = None
            self._peers.event_counts["GRAFT"] += 1
            self._peers.send(peer, Rpc(control=ControlMessage(graft=(topic,))))

    def leave(self, topic: str, now: float) -> None:
        """Ends the mesh of a topic."""
        seconds = self._params.unsubscribe_backoff
        for peer in self.members.pop(topic):
            self._peers.event_counts["PRUNE"] += 1
            self._peers.send(peer, Rpc(control=ControlMessage(prune=(self.make_prune(peer, topic, seconds),))))
            self.backoff.add(topic, peer, seconds, now)

    # --- what peers say ------------------------------------------------------------------------------------------

    def handle_graft(self, peer: PeerId, topic: str, now: float) -> bool:
        """Takes a peer's GRAFT; False if it must be answered with a PRUNE."""
        members = self.members.get(topic)
        if members is None or peer in members:
            return True
        end = self.backoff.ends_at(topic, peer)
        if end is not None and now < end:
            is_flood = now < end + self._params.graft_flood_threshold - self._params.prune_backoff
            self._scores.add_penalty(peer, 2 if is_flood else 1)
        elif self._scores.score(peer) >= 0 and (len(members) < self._params.d_hi or self._peers.states[peer].outbound):
            members[peer] = None
            self._peers.event_counts["GRAFT"] += 1
            return True
        self.backoff.add(topic, peer, self._params.prune_backoff, now)
        return False

    def handle_prune(self, peer: PeerId, prune: Prune, now: float) -> None:
        """Takes a peer's PRUNE and obeys its backoff, up to an hour."""
        members = self.members.get(prune.topic)
        if members is None:
            return
        if peer in members:
            del members[peer]
            self._peers.event_counts["PRUNE"] += 1
        seconds = min(float(prune.backoff), MAX_PRUNE_BACKOFF) if prune.backoff else self._params.prune_backoff
        self.backoff.add(prune.topic, peer, seconds, now)

    def remove_peer(self, peer: PeerId) -> None:
        """A peer is gone from all meshes without a word."""
        for topic in self.members:
            self.remove_from(topic, peer)

    def remove_from(self, topic: str, peer: PeerId) -> None:
        """A peer is gone from the mesh of a topic without a word."""
        self.members.get(topic, {}).pop(peer, None)

    def make_prune(self, peer: PeerId, topic: str, seconds: float | None = None) -> Prune:
        """The PRUNE to send to a peer."""
        backoff = self._params.prune_backoff if seconds is None else seconds
        return Prune(topic, int(backoff) if self._peers.states[peer].supports_backoff else None)

    # --- heartbeat -----------------------------------------------------------------------------------------------

    def heartbeat(self, tick: int, score: Callable[[PeerId], float], now: float) -> dict[PeerId, MeshChange]:
        """Brings every mesh back into its bounds; what changed, by peer."""
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
                self._peers.event_counts["GRAFT"] += 1
        for peer in before:
            if peer not in members:
                changes.setdefault(peer, MeshChange([], [])).pruned.append(topic)
                self._peers.event_counts["PRUNE"] += 1

    def _prune_negative_scores(self, topic: str, score: Callable[[PeerId], float], now: float) -> None:
        for peer in [peer for peer in self.members[topic] if score(peer) < 0]:
            self._prune(topic, peer, now)

    def _graft_below_d_lo(self, topic: str, score: Callable[[PeerId], float]) -> None:
        members = self.members[topic]
        if len(members) < self._params.d_lo:
            self._graft(topic, self._params.d - len(members), lambda peer: score(peer) >= 0)

    def _prune_above_d_hi(self, topic: str, score: Callable[[PeerId], float], now: float) -> None:
        """Above the bound: the best by score stay, the rest of D by chance, with enough that we dialled ourselves."""
        members, params = self.members[topic], self._params
        if len(members) <= params.d_hi:
            return
        order = list(members)
        self._random.shuffle(order)
        order.sort(key=score, reverse=True)
        best, rest = order[: params.d_score], order[params.d_score :]
        self._random.shuffle(rest)
        order = best + rest
        kept = order[: params.d]
        lacking = params.d_out - sum(self._peers.states[peer].outbound for peer in kept)
        if lacking > 0:
            dialled = [peer for peer in order[params.d :] if self._peers.states[peer].outbound][:lacking]
            inbound = [peer for peer in kept if not self._peers.states[peer].outbound]
            kept = [peer for peer in kept if peer not in set(inbound[len(inbound) - len(dialled) :])] + dialled
        for peer in [peer for peer in order if peer not in set(kept)]:
            self._prune(topic, peer, now)

    def _graft_outbound(self, topic: str, score: Callable[[PeerId], float]) -> None:
        members, peers = self.members[topic], self._peers.states
        lacking = self._params.d_out - sum(peers[peer].outbound for peer in members)
        if lacking > 0 and len(members) >= self._params.d_lo:
            self._graft(topic, lacking, lambda peer: peers[peer].outbound and score(peer) >= 0)

    def _opportunistic_graft(self, topic: str, score: Callable[[PeerId], float]) -> None:
        """Opportunistic grafting: a mesh whose median score is poor gets a few members above the median."""
        members = self.members[topic]
        if len(members) < 2:
            return
        median = sorted(map(score, members))[len(members) // 2]
        if median < self._scores.thresholds.opportunistic_graft:
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
        return not self.backoff.blocks_graft(topic, peer) and self._scores.score(peer) >= 0

    def select_peers(
        self, topic: str, count: int, fits: Callable[[PeerId], bool], without: Collection[PeerId] = ()
    ) -> list[PeerId]:
        """At most `count` peers of a topic, by chance."""
        if count <= 0:
            return []
        found = list(self._peers.mesh_candidates(topic, lambda peer: peer not in without and fits(peer)))
        self._random.shuffle(found)
        return found[:count]
