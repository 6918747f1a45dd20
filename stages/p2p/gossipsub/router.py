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
        self.allowed_topics = frozenset(allowed)
        self.peers = PeerTable(params)
        self.meshes = Meshes(params, self.peers, scores, random)
        self.fanout = Fanout(params, self.peers, self.meshes)
        self.lazy_gossip = LazyGossip(params, self.peers, random)
        self.validation_queue = ValidationQueue(params, self.peers, self.lazy_gossip.promises, id_rule)
        self.heartbeat_ticks = 0
        self._early_subscriptions: dict[PeerId, list[Subscription]] = {}

    # --- peers -----------------------------------------------------------------------------------------------------

    def add_peer(self, peer: PeerId, protocol: str, outbound: bool, addresses: Iterable[str]) -> None:
        """A peer can be written to, from now on or anew: it is told of our topics. `outbound`: we dialled it;
        `addresses`: its IPs."""
        joined = [topic for topic, peers in self.peers.topics.items() if peer in peers]
        if peer in self.peers.states:
            self._remove(peer)
        self.peers.states[peer] = GossipPeer(protocol, outbound, self.params)
        self.peers.event_counts["ADD_PEER"] += 1
        self.scores.add_peer(peer, addresses)
        self._send_hello(peer)
        self._handle_subscriptions(peer, [Subscription(topic, True) for topic in joined])
        self._handle_subscriptions(peer, self._early_subscriptions.pop(peer, ()))

    def remove_peer(self, peer: PeerId, now: float) -> None:
        """A peer is gone; its score may be kept."""
        self._early_subscriptions.pop(peer, None)
        if peer in self.peers.states:
            self._remove(peer)
            self.scores.remove_peer(peer, now)

    def topic_peers(self, topic: str) -> Collection[PeerId]:
        """Peers that have joined a topic (`opp2p_peerStats`)."""
        return self.peers.topic_peers(topic)

    def take_ready(self) -> list[PeerId]:
        """Peers for whom something was queued since the last call."""
        ready = list(self.peers.ready)
        self.peers.ready.clear()
        return ready

    def next_frame(self, peer: PeerId) -> bytes | None:
        """What to write next to a peer."""
        state = self.peers.states.get(peer)
        return None if state is None else state.rpc_queue.pop()

    def take_event_counts(self) -> Mapping[str, int]:
        """Events since the last call, by op-node's names."""
        counts, self.peers.event_counts = self.peers.event_counts, Counter()
        return counts

    def _remove(self, peer: PeerId) -> None:
        self.meshes.remove_peer(peer)
        self.fanout.remove_peer(peer)
        self.peers.remove(peer)
        self.peers.event_counts["REMOVE_PEER"] += 1

    # --- our topics ------------------------------------------------------------------------------------------------

    def join(self, topic: str) -> None:
        """Joins one of the allowed topics and tells all peers."""
        if topic in self.allowed_topics and topic not in self.meshes.members:
            self.peers.event_counts["JOIN"] += 1
            self._announce(Subscription(topic, True))
            self.meshes.join(topic, self.fanout.remove_topic(topic))

    def leave(self, topic: str, now: float) -> None:
        """Leaves a topic."""
        if topic in self.meshes.members:
            self.peers.event_counts["LEAVE"] += 1
            self._announce(Subscription(topic, False))
            self.meshes.leave(topic, now)

    def _announce(self, change: Subscription) -> None:
        for peer, state in self.peers.states.items():
            state.hello_pending |= not self.peers.send(peer, Rpc(subscriptions=(change,)))

    def _send_hello(self, peer: PeerId, all_topics: bool = False) -> None:
        """Tells a peer of the topics we have joined, and of the others too where it may have missed that we left."""
        said = [Subscription(topic, topic in self.meshes.members) for topic in sorted(self.allowed_topics)]
        told = tuple([each for each in said if each.subscribe or all_topics])
        self.peers.states[peer].hello_pending = bool(told) and not self.peers.send(peer, Rpc(subscriptions=told))

    # --- messages --------------------------------------------------------------------------------------------------

    def publish(self, topic: str, data: bytes, now: float) -> int | None:
        """Sends our own message to the mesh, or to all peers of the topic where that is configured or the mesh is
        small; how many it is queued for, None if it was seen before."""
        own = self.validation_queue.add_published(topic, data, now)
        if own is None:
            return None
        self.peers.event_counts["PUBLISH_MESSAGE"] += 1
        self.peers.event_counts["DELIVER_MESSAGE"] += 1
        members = self.meshes.members.get(topic)
        if self.params.flood_publish or (members is not None and len(members) < self.params.d_lo):
            receivers = [peer for peer in self.peers.topic_peers(topic) if self._may_publish_to(peer)]
        elif members is not None:
            receivers = [*members, *self._floodsub_peers(topic)]
        else:
            receivers = [*self.fanout.peers_for(topic, self._may_publish_to, now), *self._floodsub_peers(topic)]
        return self._send_message(own, topic, data, receivers)

    def receive_rpc(self, peer: PeerId, raw: bytes, now: float) -> list[UnvalidatedMessage] | MalformedRpc:
        """Takes one message from a peer (without its length); what of it is to be judged."""
        try:
            rpc = decode_rpc(raw)
        except RpcDecodeError as error:
            return MalformedRpc(str(error))
        if peer not in self.peers.states:
            self._store_early_subscriptions(peer, rpc.subscriptions)
            return []
        self.peers.event_counts["RECV_RPC"] += 1
        self._handle_subscriptions(peer, rpc.subscriptions)
        if self.scores.score(peer) < self.scores.thresholds.graylist:
            return []
        found = [self._handle_message(peer, each, now) for each in rpc.messages if each.topic in self.meshes.members]
        self._handle_control(peer, rpc.control, now)
        return [each for each in found if each is not None]

    def report_validation_result(self, message: MessageId, verdict: ValidationResult, now: float) -> int:
        """What was decided about a message; one that is accepted is passed on, and the number of peers it is queued
        for is returned. A verdict on a message that does not wait any more changes nothing."""
        accepted = self.validation_queue.finish(message, verdict)
        if accepted is None:
            return 0
        receivers = [*self.meshes.members.get(accepted.topic, ()), *self._floodsub_peers(accepted.topic)]
        others = [peer for peer in receivers if peer not in accepted.senders]
        return self._send_message(message, accepted.topic, accepted.data, others)

    def _send_message(self, message: MessageId, topic: str, data: bytes, receivers: Iterable[PeerId]) -> int:
        """Keeps a message to be asked for, and queues it for those who do not have it."""
        frame = encode_frame(Rpc(messages=(PubsubMessage(topic, data),)))
        self.lazy_gossip.cache.put(message, CachedMessage(topic, frame))
        lacking = [peer for peer in receivers if message not in self.peers.states[peer].unwanted]
        return sum([self.peers.send_frame(peer, frame) for peer in lacking])

    def _store_early_subscriptions(self, peer: PeerId, subscriptions: Iterable[Subscription]) -> None:
        """Remembers the topics that a peer tells of before we can write to it."""
        known = [each for each in subscriptions if each.topic in self.allowed_topics]
        if known:
            self._early_subscriptions[peer] = (self._early_subscriptions.pop(peer, []) + known)[
                -len(self.allowed_topics) :
            ]
            if len(self._early_subscriptions) > MAX_EARLY_SUBSCRIBERS:
                del self._early_subscriptions[next(iter(self._early_subscriptions))]

    def _handle_subscriptions(self, peer: PeerId, subscriptions: Iterable[Subscription]) -> None:
        """Joins and leaves of allowed topics; both for the same topic in one message cancel out."""
        said: dict[str, set[bool]] = {}
        for topic, subscribe in subscriptions:
            if topic in self.allowed_topics:
                said.setdefault(topic, set()).add(subscribe)
        for topic, both in said.items():
            if both == {True}:
                self.peers.join(peer, topic)
            elif both == {False}:
                self.peers.leave(peer, topic)
                self.meshes.remove_from(topic, peer)

    def _handle_message(self, peer: PeerId, message: PubsubMessage, now: float) -> UnvalidatedMessage | None:
        """A large message that is new is not wanted from the rest of the mesh any more: that is said at once."""
        found = self.validation_queue.receive(peer, message, now)
        if found is not None and len(message.data) >= self.params.idontwant_message_threshold:
            frame = encode_frame(Rpc(control=ControlMessage(idontwant=(found.id,))))
            for other in self.meshes.members[message.topic]:
                if other != peer and self.peers.states[other].supports_idontwant:
                    self.peers.send_frame(other, frame, urgent=True)
        return found

    def _may_publish_to(self, peer: PeerId) -> bool:
        return self.scores.score(peer) >= self.scores.thresholds.publish

    def _floodsub_peers(self, topic: str) -> list[PeerId]:
        """Peers that keep no mesh and are sent everything."""
        joined = self.peers.topic_peers(topic)
        return [peer for peer in joined if not self.peers.states[peer].supports_mesh and self._may_publish_to(peer)]

    # --- control -----------------------------------------------------------------------------------------------------

    def _handle_control(self, peer: PeerId, control: ControlMessage, now: float) -> None:
        if self.scores.score(peer) >= self.scores.thresholds.gossip:
            self._handle_gossip(peer, control, now)
        refused = [topic for topic in control.graft if not self.meshes.handle_graft(peer, topic, now)]
        if refused:
            prunes = tuple([self.meshes.make_prune(peer, topic) for topic in dict.fromkeys(refused)])
            self.peers.send(peer, Rpc(control=ControlMessage(prune=prunes)))
        for prune in control.prune:
            self.meshes.handle_prune(peer, prune, now)
        self.peers.states[peer].handle_idontwant(control.idontwant, self.params)

    def _handle_gossip(self, peer: PeerId, control: ControlMessage, now: float) -> None:
        def lacks(topic: str, message: MessageId) -> bool:
            return topic in self.meshes.members and not self.validation_queue.has_seen(message, now)

        if control.ihave:
            wanted = self.lazy_gossip.handle_ihave(peer, control.ihave, lacks, now)
            if wanted:
                self.peers.send(peer, Rpc(control=ControlMessage(iwant=wanted)))
        for message in self.lazy_gossip.handle_iwant(peer, control.iwant):
            self.peers.send_frame(peer, message.frame)

    # --- heartbeat ---------------------------------------------------------------------------------------------------

    def heartbeat(self, now: float) -> None:
        """Upkeep of scores, meshes, fanout, cache and counters; sends GRAFT, PRUNE and IHAVE, one message to a peer."""
        self.heartbeat_ticks += 1
        self.scores.refresh(now)
        for peer, count in self.lazy_gossip.promises.broken(now).items():
            self.scores.add_penalty(peer, count)
        self.validation_queue.heartbeat(now)
        totals = {peer: self.scores.score(peer) for peer in self.peers.states}
        changes = self.meshes.heartbeat(self.heartbeat_ticks, totals.__getitem__, now)
        self.fanout.heartbeat(lambda peer: totals[peer] >= self.scores.thresholds.publish, now)
        told = self._emit_gossip(totals)
        for peer, state in self.peers.states.items():
            state.start_heartbeat(self.params)
            if state.hello_pending:
                self._send_hello(peer, all_topics=True)
            grafted, pruned = changes.get(peer, ((), ()))
            control = self._build_control(peer, state, told.get(peer, ()), grafted, pruned)
            if any(control):
                self.peers.send(peer, Rpc(control=control))
        self.lazy_gossip.cache.shift()

    def _emit_gossip(self, totals: Mapping[PeerId, float]) -> Mapping[PeerId, list[IHave]]:
        told: dict[PeerId, list[IHave]] = {}
        threshold = self.scores.thresholds.gossip
        for topic, members in (*self.meshes.members.items(), *self.fanout.members.items()):
            for peer, have in self.lazy_gossip.emit_gossip(topic, members, lambda peer: totals[peer] >= threshold):
                told.setdefault(peer, []).append(have)
        return told

    def _build_control(
        self, peer: PeerId, state: GossipPeer, have: Collection[IHave], grafted: Iterable[str], pruned: Iterable[str]
    ) -> ControlMessage:
        """A heartbeat's control part, with the GRAFTs and PRUNEs that found no room before and are still true."""
        grafts = {topic: None for topic in state.pending_grafts if peer in self.meshes.members.get(topic, ())}
        prunes: dict[str, Prune] = {
            topic: prune
            for topic, prune in state.pending_prunes.items()
            if peer not in self.meshes.members.get(topic, ())
        }
        state.pending_grafts, state.pending_prunes = {}, {}
        grafts |= dict.fromkeys(grafted)
        prunes |= {topic: self.meshes.make_prune(peer, topic) for topic in pruned}
        return ControlMessage(ihave=tuple(have), graft=tuple(grafts), prune=tuple(prunes.values()))
