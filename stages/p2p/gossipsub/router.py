"""The gossip router: Gossipsub v1.1 with IDONTWANT of v1.2 and StrictNoSign, as a synchronous core
(node-behaviour 13.3-13.8).

How a shell drives it, from one event loop, with `now` the seconds of a steady clock:

* Our outbound stream to a peer for one of `gossip_params.PROTOCOLS` stands: `add_peer`, and again when it had to be
  opened anew. The peer is disconnected: `remove_peer`. Its addresses change: `scores.add`.
* A message has come on any inbound stream (`read_message(MAX_RPC_BYTES)`): `receive`. `MalformedRpc`: reset the stream.
  Otherwise each `UnvalidatedMessage` is to be judged, now or later, and reported by `verdict`; those that nobody judges in time
  count as ignored. Of a peer not added yet only the topics are heard, so reading better waits until it is.
* `heartbeat` every `params.heartbeat` seconds. `publish` for our own messages, which are judged before.
* After each call: for the peers of `take_ready()` wake a writer, which writes `next_frame(peer)` (length included)
  until it is None. A writer that is blocked leaves frames in the queue, which is bounded; nothing else waits for it.
* `take_counts()` now and then for the metric `p2p_gossip_events_total`.

Nothing is raised for what a peer sends. All chance comes from the generator given.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from rollup_node.stages.p2p.gossipsub.fanout import Fanout
from rollup_node.stages.p2p.gossipsub.lazy_gossip import LazyGossip
from rollup_node.stages.p2p.gossipsub.mesh import Meshes
from rollup_node.stages.p2p.gossipsub.message import MessageId, MessageIdScheme, UnvalidatedMessage, ValidationResult
from rollup_node.stages.p2p.gossipsub.message_cache import CachedMessage
from rollup_node.stages.p2p.gossipsub.params import MAX_EARLY_SUBSCRIBERS, GossipParams
from rollup_node.stages.p2p.gossipsub.peers import GossipPeer, PeerTable, RandomSource
from rollup_node.stages.p2p.gossipsub.rpc import (
    ControlMessage,
    IHave,
    Prune,
    PubsubMessage,
    Rpc,
    RpcDecodeError,
    Subscription,
    decode_rpc,
    encode_frame,
)
from rollup_node.stages.p2p.gossipsub.validation_queue import ValidationQueue
from rollup_node.stages.p2p.identity.peer_id import PeerId
from rollup_node.stages.p2p.scoring.peer_score import PeerScorer


class MalformedRpc(NamedTuple):
    """What came is no message of Gossipsub: the stream it came on is to be reset."""

    reason: str


class GossipSubRouter:
    """The state of gossip with all peers. `allowed` are the only topics that we or peers may join."""

    def __init__(
        self,
        params: GossipParams,
        allowed: Iterable[str],
        scores: PeerScorer,
        random: RandomSource,
        id_rule: MessageIdScheme = MessageIdScheme.OP_NODE,
    ) -> None:
        self.params = params
        self.scores = scores
        self.allowed = frozenset(allowed)
        self.peers = PeerTable(params)
        self.meshes = Meshes(params, self.peers, scores, random)
        self.fanout = Fanout(params, self.peers, self.meshes)
        self.lazy = LazyGossip(params, self.peers, random)
        self.inbox = ValidationQueue(params, self.peers, self.lazy.promises, id_rule)
        self.ticks = 0
        self._early: dict[PeerId, list[Subscription]] = {}

    # --- peers -----------------------------------------------------------------------------------------------------

    def add_peer(self, peer: PeerId, protocol: str, outbound: bool, addresses: Iterable[str]) -> None:
        """A peer can be written to, from now on or anew: it is told of our topics. `outbound`: we dialled it;
        `addresses`: its IPs."""
        joined = [topic for topic, peers in self.peers.topics.items() if peer in peers]
        if peer in self.peers.all:
            self._drop(peer)
        self.peers.all[peer] = GossipPeer(protocol, outbound, self.params)
        self.peers.counts["ADD_PEER"] += 1
        self.scores.add_peer(peer, addresses)
        self._say_hello(peer)
        self._take_subscriptions(peer, [Subscription(topic, True) for topic in joined])
        self._take_subscriptions(peer, self._early.pop(peer, ()))

    def remove_peer(self, peer: PeerId, now: float) -> None:
        """A peer is gone; its score may be kept."""
        self._early.pop(peer, None)
        if peer in self.peers.all:
            self._drop(peer)
            self.scores.remove_peer(peer, now)

    def topic_peers(self, topic: str) -> Collection[PeerId]:
        """Peers that have joined a topic (`opp2p_peerStats`)."""
        return self.peers.in_topic(topic)

    def take_ready(self) -> list[PeerId]:
        """Peers for whom something was queued since the last call."""
        ready = list(self.peers.ready)
        self.peers.ready.clear()
        return ready

    def next_frame(self, peer: PeerId) -> bytes | None:
        """What to write next to a peer."""
        state = self.peers.all.get(peer)
        return None if state is None else state.outbox.pop()

    def take_counts(self) -> Mapping[str, int]:
        """Events since the last call, by op-node's names."""
        counts, self.peers.counts = self.peers.counts, Counter()
        return counts

    def _drop(self, peer: PeerId) -> None:
        self.meshes.drop(peer)
        self.fanout.drop(peer)
        self.peers.remove(peer)
        self.peers.counts["REMOVE_PEER"] += 1

    # --- our topics ------------------------------------------------------------------------------------------------

    def join(self, topic: str) -> None:
        """Joins one of the allowed topics and tells all peers."""
        if topic in self.allowed and topic not in self.meshes.members:
            self.peers.counts["JOIN"] += 1
            self._announce(Subscription(topic, True))
            self.meshes.join(topic, self.fanout.take(topic))

    def leave(self, topic: str, now: float) -> None:
        """Leaves a topic."""
        if topic in self.meshes.members:
            self.peers.counts["LEAVE"] += 1
            self._announce(Subscription(topic, False))
            self.meshes.leave(topic, now)

    def _announce(self, change: Subscription) -> None:
        for peer, state in self.peers.all.items():
            state.hello_due |= not self.peers.send(peer, Rpc(subscriptions=(change,)))

    def _say_hello(self, peer: PeerId, all_topics: bool = False) -> None:
        """Tells a peer of the topics we have joined, and of the others too where it may have missed that we left."""
        said = [Subscription(topic, topic in self.meshes.members) for topic in sorted(self.allowed)]
        told = tuple([each for each in said if each.subscribe or all_topics])
        self.peers.all[peer].hello_due = bool(told) and not self.peers.send(peer, Rpc(subscriptions=told))

    # --- messages --------------------------------------------------------------------------------------------------

    def publish(self, topic: str, data: bytes, now: float) -> int | None:
        """Sends our own message to the mesh, or to all peers of the topic where that is configured or the mesh is
        small; how many it is queued for, None if it was seen before."""
        own = self.inbox.add_own(topic, data, now)
        if own is None:
            return None
        self.peers.counts["PUBLISH_MESSAGE"] += 1
        self.peers.counts["DELIVER_MESSAGE"] += 1
        members = self.meshes.members.get(topic)
        if self.params.flood_publish or (members is not None and len(members) < self.params.d_lo):
            receivers = [peer for peer in self.peers.in_topic(topic) if self._may_publish_to(peer)]
        elif members is not None:
            receivers = [*members, *self._floodsub_peers(topic)]
        else:
            receivers = [*self.fanout.receivers(topic, self._may_publish_to, now), *self._floodsub_peers(topic)]
        return self._push(own, topic, data, receivers)

    def receive(self, peer: PeerId, raw: bytes, now: float) -> list[UnvalidatedMessage] | MalformedRpc:
        """Takes one message from a peer (without its length); what of it is to be judged."""
        try:
            rpc = decode_rpc(raw)
        except RpcDecodeError as error:
            return MalformedRpc(str(error))
        if peer not in self.peers.all:
            self._note_early(peer, rpc.subscriptions)
            return []
        self.peers.counts["RECV_RPC"] += 1
        self._take_subscriptions(peer, rpc.subscriptions)
        if self.scores.score(peer) < self.scores.thresholds.graylist:
            return []
        found = [self._take_message(peer, each, now) for each in rpc.messages if each.topic in self.meshes.members]
        self._take_control(peer, rpc.control, now)
        return [each for each in found if each is not None]

    def verdict(self, message: MessageId, verdict: ValidationResult, now: float) -> int:
        """What was decided about a message; one that is accepted is passed on, and the number of peers it is queued
        for is returned. A verdict on a message that does not wait any more changes nothing."""
        accepted = self.inbox.settle(message, verdict)
        if accepted is None:
            return 0
        receivers = [*self.meshes.members.get(accepted.topic, ()), *self._floodsub_peers(accepted.topic)]
        others = [peer for peer in receivers if peer not in accepted.brought_by]
        return self._push(message, accepted.topic, accepted.data, others)

    def _push(self, message: MessageId, topic: str, data: bytes, receivers: Iterable[PeerId]) -> int:
        """Keeps a message to be asked for, and queues it for those who do not have it."""
        frame = encode_frame(Rpc(messages=(PubsubMessage(topic, data),)))
        self.lazy.cache.put(message, CachedMessage(topic, frame))
        lacking = [peer for peer in receivers if message not in self.peers.all[peer].unwanted]
        return sum([self.peers.send_frame(peer, frame) for peer in lacking])

    def _note_early(self, peer: PeerId, subscriptions: Iterable[Subscription]) -> None:
        """Remembers the topics that a peer tells of before we can write to it."""
        known = [each for each in subscriptions if each.topic in self.allowed]
        if known:
            self._early[peer] = (self._early.pop(peer, []) + known)[-len(self.allowed) :]
            if len(self._early) > MAX_EARLY_SUBSCRIBERS:
                del self._early[next(iter(self._early))]

    def _take_subscriptions(self, peer: PeerId, subscriptions: Iterable[Subscription]) -> None:
        """Joins and leaves of allowed topics; both for the same topic in one message cancel out."""
        said: dict[str, set[bool]] = {}
        for topic, subscribe in subscriptions:
            if topic in self.allowed:
                said.setdefault(topic, set()).add(subscribe)
        for topic, both in said.items():
            if both == {True}:
                self.peers.join(peer, topic)
            elif both == {False}:
                self.peers.leave(peer, topic)
                self.meshes.drop_from(topic, peer)

    def _take_message(self, peer: PeerId, message: PubsubMessage, now: float) -> UnvalidatedMessage | None:
        """A large message that is new is not wanted from the rest of the mesh any more: that is said at once."""
        found = self.inbox.take(peer, message, now)
        if found is not None and len(message.data) >= self.params.idontwant_from_bytes:
            frame = encode_frame(Rpc(control=ControlMessage(dont_want=(found.id,))))
            for other in self.meshes.members[message.topic]:
                if other != peer and self.peers.all[other].knows_idontwant:
                    self.peers.send_frame(other, frame, urgent=True)
        return found

    def _may_publish_to(self, peer: PeerId) -> bool:
        return self.scores.score(peer) >= self.scores.thresholds.publish

    def _floodsub_peers(self, topic: str) -> list[PeerId]:
        """Peers that keep no mesh and are sent everything."""
        joined = self.peers.in_topic(topic)
        return [peer for peer in joined if not self.peers.all[peer].meshes and self._may_publish_to(peer)]

    # --- control -----------------------------------------------------------------------------------------------------

    def _take_control(self, peer: PeerId, control: ControlMessage, now: float) -> None:
        if self.scores.score(peer) >= self.scores.thresholds.gossip:
            self._take_gossip(peer, control, now)
        refused = [topic for topic in control.graft if not self.meshes.grafted_by(peer, topic, now)]
        if refused:
            prunes = tuple([self.meshes.prune(peer, topic) for topic in dict.fromkeys(refused)])
            self.peers.send(peer, Rpc(control=ControlMessage(prune=prunes)))
        for prune in control.prune:
            self.meshes.pruned_by(peer, prune, now)
        self.peers.all[peer].note_unwanted(control.dont_want, self.params)

    def _take_gossip(self, peer: PeerId, control: ControlMessage, now: float) -> None:
        def lacks(topic: str, message: MessageId) -> bool:
            return topic in self.meshes.members and not self.inbox.has_seen(message, now)

        if control.have:
            wanted = self.lazy.wants(peer, control.have, lacks, now)
            if wanted:
                self.peers.send(peer, Rpc(control=ControlMessage(want=wanted)))
        for message in self.lazy.answers(peer, control.want):
            self.peers.send_frame(peer, message.frame)

    # --- heartbeat ---------------------------------------------------------------------------------------------------

    def heartbeat(self, now: float) -> None:
        """Upkeep of scores, meshes, fanout, cache and counters; sends GRAFT, PRUNE and IHAVE, one message to a peer."""
        self.ticks += 1
        self.scores.refresh(now)
        for peer, count in self.lazy.promises.broken(now).items():
            self.scores.add_penalty(peer, count)
        self.inbox.tick(now)
        totals = {peer: self.scores.score(peer) for peer in self.peers.all}
        changes = self.meshes.upkeep(self.ticks, totals.__getitem__, now)
        self.fanout.upkeep(lambda peer: totals[peer] >= self.scores.thresholds.publish, now)
        told = self._tell(totals)
        for peer, state in self.peers.all.items():
            state.begin_tick(self.params)
            if state.hello_due:
                self._say_hello(peer, all_topics=True)
            grafted, pruned = changes.get(peer, ((), ()))
            control = self._with_unsent(peer, state, told.get(peer, ()), grafted, pruned)
            if any(control):
                self.peers.send(peer, Rpc(control=control))
        self.lazy.cache.shift()

    def _tell(self, totals: Mapping[PeerId, float]) -> Mapping[PeerId, list[IHave]]:
        told: dict[PeerId, list[IHave]] = {}
        threshold = self.scores.thresholds.gossip
        for topic, members in (*self.meshes.members.items(), *self.fanout.members.items()):
            for peer, have in self.lazy.tell(topic, members, lambda peer: totals[peer] >= threshold):
                told.setdefault(peer, []).append(have)
        return told

    def _with_unsent(
        self, peer: PeerId, state: GossipPeer, have: Collection[IHave], grafted: Iterable[str], pruned: Iterable[str]
    ) -> ControlMessage:
        """A heartbeat's control part, with the GRAFTs and PRUNEs that found no room before and are still true."""
        grafts = {topic: None for topic in state.unsent_grafts if peer in self.meshes.members.get(topic, ())}
        prunes: dict[str, Prune] = {
            topic: prune
            for topic, prune in state.unsent_prunes.items()
            if peer not in self.meshes.members.get(topic, ())
        }
        state.unsent_grafts, state.unsent_prunes = {}, {}
        grafts |= dict.fromkeys(grafted)
        prunes |= {topic: self.meshes.prune(peer, topic) for topic in pruned}
        return ControlMessage(have=tuple(have), graft=tuple(grafts), prune=tuple(prunes.values()))
