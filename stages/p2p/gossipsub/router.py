"""The gossipsub router: gossipsub v1.1 with IDONTWANT of v1.2 and StrictNoSign, as a synchronous core [GSP3 to GSP9].

How to drive it, from one event loop, with `now` in monotonic seconds:

* When our outbound stream to a peer for one of `params.PROTOCOLS` is open, call `add_peer`, and again when the stream
  was opened again; when the peer is disconnected, call `remove_peer`.
* For each RPC on an inbound stream call `receive_rpc`. On `MalformedRpc` reset the stream. Validate each
  `UnvalidatedMessage` returned, at once or later, and call `report_validation_result`; a message without a result is
  ignored after VALIDATION_TIMEOUT. Of a peer not added yet only subscriptions are kept.
* Call `heartbeat` every `params.heartbeat_interval` seconds, and `publish` for our own messages, which are validated
  before.
* After each call wake a writer for each peer of `take_ready()`; it writes `next_frame(peer)` (length prefix included)
  until that is None. Frames of a blocked writer stay in its bounded queue; nothing else waits for it.

Nothing a peer sends raises an exception. All randomness comes from the source given.
Source: https://github.com/libp2p/specs/blob/master/pubsub/gossipsub/gossipsub-v1.1.md and gossipsub-v1.2.md beside it
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from rollup_node.stages.p2p.addresses.peer_id import PeerId
from rollup_node.stages.p2p.gossipsub.lazy_gossip import CachedMessage, LazyGossip
from rollup_node.stages.p2p.gossipsub.mesh import Meshes
from rollup_node.stages.p2p.gossipsub.params import MAX_EARLY_SUBSCRIBERS, GossipParams
from rollup_node.stages.p2p.gossipsub.peers import GossipPeer, MessageId, PeerTable, RandomSource, TraceEvent
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
from rollup_node.stages.p2p.gossipsub.validation_queue import UnvalidatedMessage, ValidationQueue, ValidationResult
from rollup_node.stages.p2p.peering.peer_score import PeerScorer


class MalformedRpc(NamedTuple):
    """The data is not a gossipsub RPC; its stream must be reset."""

    error: str


class GossipSubRouter:
    """The state of gossip with all peers. We are in all `topics` for good; peers may join these only."""

    def __init__(
        self,
        params: GossipParams,
        topics: Iterable[str],
        scorer: PeerScorer,
        random: RandomSource,
    ) -> None:
        self.params, self.scorer = params, scorer
        self.topics = tuple(sorted(topics))
        self.peers = PeerTable(params)
        self.peers.event_counts[TraceEvent.JOIN] = len(self.topics)
        self.meshes = Meshes(params, self.topics, self.peers, scorer, random)
        self.lazy_gossip = LazyGossip(params, self.peers, random)
        self.validation_queue = ValidationQueue(params, self.peers, self.lazy_gossip.promises)
        self.heartbeat_ticks = 0
        self._early_subscriptions: dict[PeerId, list[Subscription]] = {}

    def add_peer(self, peer: PeerId, protocol: str, outbound: bool, addresses: Iterable[str]) -> None:
        """Add or restart a peer that can be written to (`outbound`: dialled by us), and send it our subscriptions."""
        joined = [topic for topic, peers in self.peers.topics.items() if peer in peers]
        if peer in self.peers.states:
            self._remove(peer)
        self.peers.states[peer] = GossipPeer(protocol, outbound, self.params)
        self.peers.event_counts[TraceEvent.ADD_PEER] += 1
        self.scorer.add_peer(peer, addresses)
        self.peers.send(peer, Rpc(subscriptions=[Subscription(topic, True) for topic in self.topics]))
        self._handle_subscriptions(peer, [Subscription(topic, True) for topic in joined])
        self._handle_subscriptions(peer, self._early_subscriptions.pop(peer, ()))

    def remove_peer(self, peer: PeerId, now: float) -> None:
        """Remove a disconnected peer; its score may be retained."""
        self._early_subscriptions.pop(peer, None)
        if peer in self.peers.states:
            self._remove(peer)
            self.scorer.remove_peer(peer, now)

    def take_ready(self) -> list[PeerId]:
        """Return the peers for which something was queued since the last call."""
        ready = list(self.peers.ready)
        self.peers.ready.clear()
        return ready

    def next_frame(self, peer: PeerId) -> bytes | None:
        """Return the next frame to write to a peer; None when its queue is empty."""
        state = self.peers.states.get(peer)
        return None if state is None else state.rpc_queue.pop()

    def take_event_counts(self) -> Mapping[TraceEvent, int]:
        """Events since the last call."""
        counts, self.peers.event_counts = self.peers.event_counts, Counter()
        return counts

    def _remove(self, peer: PeerId) -> None:
        self.meshes.remove_peer(peer)
        self.peers.remove(peer)
        self.peers.event_counts[TraceEvent.REMOVE_PEER] += 1

    def publish(self, topic: str, data: bytes, now: float) -> int | None:
        """Publish a message of our own to the mesh, or more [GSP9]; return the number of peers, None if repeated."""
        message_id = self.validation_queue.add_published(topic, data, now)
        if message_id is None:
            return None
        self.peers.event_counts[TraceEvent.PUBLISH_MESSAGE] += 1
        self.peers.event_counts[TraceEvent.DELIVER_MESSAGE] += 1
        members = self.meshes.members[topic]
        if self.params.flood_publish or len(members) < self.params.d_lo:
            receivers = [peer for peer in self.peers.topic_peers(topic) if self._may_publish_to(peer)]
        else:
            receivers = [*members, *self._floodsub_peers(topic)]
        return self._send_message(message_id, topic, data, receivers)

    def receive_rpc(self, peer: PeerId, raw: bytes, now: float) -> list[UnvalidatedMessage] | MalformedRpc:
        """Handle an RPC of a peer (without its length prefix); returns the messages to validate."""
        try:
            rpc = decode_rpc(raw)
        except RpcDecodeError as error:
            return MalformedRpc(str(error))
        if peer not in self.peers.states:
            self._store_early_subscriptions(peer, rpc.subscriptions)
            return []
        self.peers.event_counts[TraceEvent.RECV_RPC] += 1
        self._handle_subscriptions(peer, rpc.subscriptions)
        # Subscriptions of a graylisted peer are kept, as its score may recover; the rest of the RPC is ignored.
        if self.scorer.score(peer) < self.scorer.thresholds.graylist:
            return []
        messages = [
            self._handle_message(peer, message, now) for message in rpc.messages if message.topic in self.topics
        ]
        self._handle_control(peer, rpc.control, now)
        return [message for message in messages if message is not None]

    def report_validation_result(self, message_id: MessageId, result: ValidationResult, now: float) -> int:
        """Forward a pending message if it is accepted; return the number of peers it is queued for."""
        accepted = self.validation_queue.finish(message_id, result)
        if accepted is None:
            return 0
        receivers = [*self.meshes.members[accepted.topic], *self._floodsub_peers(accepted.topic)]
        others = [peer for peer in receivers if peer not in accepted.senders]
        return self._send_message(message_id, accepted.topic, accepted.data, others)

    def _send_message(self, message_id: MessageId, topic: str, data: bytes, receivers: Iterable[PeerId]) -> int:
        """Cache a message and queues it for those receivers that do not have it."""
        frame = encode_frame(Rpc(messages=(PubsubMessage(topic, data),)))
        self.lazy_gossip.cache.put(message_id, CachedMessage(topic, frame))
        lacking = [peer for peer in receivers if message_id not in self.peers.states[peer].unwanted]
        return sum([self.peers.send_frame(peer, frame) for peer in lacking])

    def _store_early_subscriptions(self, peer: PeerId, subscriptions: Iterable[Subscription]) -> None:
        """Keep the subscriptions of a peer that we cannot write to yet."""
        known = [subscription for subscription in subscriptions if subscription.topic in self.topics]
        if known:
            self._early_subscriptions[peer] = (self._early_subscriptions.pop(peer, []) + known)[-len(self.topics) :]
            if len(self._early_subscriptions) > MAX_EARLY_SUBSCRIBERS:
                del self._early_subscriptions[next(iter(self._early_subscriptions))]

    def _handle_subscriptions(self, peer: PeerId, subscriptions: Iterable[Subscription]) -> None:
        """Apply the allowed ones; subscribing and unsubscribing to a topic in one RPC cancel out."""
        changes: dict[str, set[bool]] = {}
        for topic, subscribe in subscriptions:
            if topic in self.topics:
                changes.setdefault(topic, set()).add(subscribe)
        for topic, change in changes.items():
            if change == {True}:
                self.peers.topics.setdefault(topic, {})[peer] = None
            elif change == {False}:
                self.peers.topics.get(topic, {}).pop(peer, None)
                self.meshes.remove_from(topic, peer)

    def _handle_message(self, peer: PeerId, message: PubsubMessage, now: float) -> UnvalidatedMessage | None:
        """Take a message; a large one that is new is answered with IDONTWANT to the rest of the mesh at once."""
        unvalidated = self.validation_queue.receive(peer, message, now)
        if unvalidated is not None and len(message.data) >= self.params.idontwant_message_threshold:
            frame = encode_frame(Rpc(control=ControlMessage(idontwant=(unvalidated.id,))))
            for other in self.meshes.members[message.topic]:
                if other != peer and self.peers.states[other].supports_idontwant:
                    self.peers.send_frame(other, frame, urgent=True)
        return unvalidated

    def _may_publish_to(self, peer: PeerId) -> bool:
        return self.scorer.score(peer) >= self.scorer.thresholds.publish

    def _floodsub_peers(self, topic: str) -> list[PeerId]:
        """Peers that keep no mesh and are sent everything."""
        joined = self.peers.topic_peers(topic)
        return [peer for peer in joined if not self.peers.states[peer].supports_mesh and self._may_publish_to(peer)]

    def _handle_control(self, peer: PeerId, control: ControlMessage, now: float) -> None:
        if self.scorer.score(peer) >= self.scorer.thresholds.gossip:
            self._handle_gossip(peer, control, now)
        rejected = [topic for topic in control.graft if not self.meshes.handle_graft(peer, topic, now)]
        if rejected:
            prunes = tuple([self.meshes.make_prune(peer, topic) for topic in dict.fromkeys(rejected)])
            self.peers.send(peer, Rpc(control=ControlMessage(prune=prunes)))
        for prune in control.prune:
            self.meshes.handle_prune(peer, prune, now)
        self.peers.states[peer].handle_idontwant(control.idontwant, self.params)

    def _handle_gossip(self, peer: PeerId, control: ControlMessage, now: float) -> None:
        def lacks(topic: str, message_id: MessageId) -> bool:
            return topic in self.topics and not self.validation_queue.seen.has(message_id, now)

        if control.ihave:
            wanted = self.lazy_gossip.handle_ihave(peer, control.ihave, lacks, now)
            if wanted:
                self.peers.send(peer, Rpc(control=ControlMessage(iwant=wanted)))
        for message in self.lazy_gossip.handle_iwant(peer, control.iwant):
            self.peers.send_frame(peer, message.frame)

    def heartbeat(self, now: float) -> None:
        """Maintain scores, meshes, cache and counters; send at most one RPC per peer."""
        self.heartbeat_ticks += 1
        self.scorer.refresh(now)
        for peer, count in self.lazy_gossip.promises.broken(now).items():
            self.scorer.add_penalty(peer, count)
        self.validation_queue.heartbeat(now)
        scores = {peer: self.scorer.score(peer) for peer in self.peers.states}
        changes = self.meshes.heartbeat(self.heartbeat_ticks, scores.__getitem__, now)
        ihaves = self._emit_gossip(scores)
        for peer, state in self.peers.states.items():
            state.start_heartbeat(self.params)
            grafted, pruned = changes.get(peer, ((), ()))
            control = self._build_control(peer, state, ihaves.get(peer, ()), grafted, pruned)
            if any(control):
                self.peers.send(peer, Rpc(control=control))
        self.lazy_gossip.cache.shift()

    def _emit_gossip(self, scores: Mapping[PeerId, float]) -> Mapping[PeerId, list[IHave]]:
        ihaves: dict[PeerId, list[IHave]] = {}
        threshold = self.scorer.thresholds.gossip
        for topic, members in self.meshes.members.items():
            for peer, ihave in self.lazy_gossip.emit_gossip(topic, members, lambda peer: scores[peer] >= threshold):
                ihaves.setdefault(peer, []).append(ihave)
        return ihaves

    def _build_control(
        self, peer: PeerId, state: GossipPeer, ihaves: Collection[IHave], grafted: Iterable[str], pruned: Iterable[str]
    ) -> ControlMessage:
        """Return a heartbeat's control message, with earlier GRAFTs and PRUNEs that found no room and still hold."""
        grafts = {topic: None for topic in state.pending_grafts if peer in self.meshes.members.get(topic, ())}
        prunes: dict[str, Prune] = {
            topic: prune
            for topic, prune in state.pending_prunes.items()
            if peer not in self.meshes.members.get(topic, ())
        }
        state.pending_grafts, state.pending_prunes = {}, {}
        grafts |= dict.fromkeys(grafted)
        prunes |= {topic: self.meshes.make_prune(peer, topic) for topic in pruned}
        return ControlMessage(ihave=tuple(ihaves), graft=tuple(grafts), prune=tuple(prunes.values()))
