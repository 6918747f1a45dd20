"""Messages between arrival and verdict. Each is judged once, however many peers bring it; what peers bring in vain,
duplicates and refused messages, is charged to their allowance."""

from collections.abc import Iterable
from typing import NamedTuple

from rollup_node.stages.p2p.encoding import snappy
from rollup_node.stages.p2p.encoding.snappy import SnappyFailure
from rollup_node.stages.p2p.gossipsub.message import (
    MessageId,
    MessageIdScheme,
    UnvalidatedMessage,
    ValidationResult,
    message_id,
)
from rollup_node.stages.p2p.gossipsub.params import MAX_SEEN, VALIDATION_TIMEOUT, GossipParams
from rollup_node.stages.p2p.gossipsub.peers import PeerTable
from rollup_node.stages.p2p.gossipsub.pending import PendingMessage, PendingMessages
from rollup_node.stages.p2p.gossipsub.promises import GossipPromises
from rollup_node.stages.p2p.gossipsub.rpc import PubsubMessage
from rollup_node.stages.p2p.gossipsub.seen_cache import SeenCache
from rollup_node.stages.p2p.identity.peer_id import PeerId


class _DecodedMessage(NamedTuple):
    id: MessageId
    content: bytes | SnappyFailure
    size: int


class ValidationQueue:
    """The ids of messages seen, and the messages that wait for a verdict."""

    def __init__(
        self, params: GossipParams, peers: PeerTable, promises: GossipPromises, id_rule: MessageIdScheme
    ) -> None:
        self._params = params
        self._peers = peers
        self._promises = promises
        self._id_scheme = id_rule
        self._seen: SeenCache[MessageId] = SeenCache(params.seen_ttl, MAX_SEEN)
        self.pending = PendingMessages()

    def has_seen(self, message: MessageId, now: float) -> bool:
        """Whether a message came, or was sent by us, within the seen time."""
        return self._seen.has(message, now)

    def add_published(self, topic: str, data: bytes, now: float) -> MessageId | None:
        """The id of a message of our own, which is seen from now on; None if it was before."""
        own = self._decode(topic, data).id
        return own if self._seen.add(own, now) else None

    def receive(self, peer: PeerId, message: PubsubMessage, now: float) -> UnvalidatedMessage | None:
        """Takes a message in a topic that we have joined; None if it is not to be judged."""
        if self._peers.states[peer].wasted_bytes_budget <= 0:
            return None
        if message.is_signed:
            self._reject(peer, len(message.data))
            return None
        found = self._decode(message.topic, message.data)
        if self._seen.has(found.id, now):
            self._add_duplicate(peer, found)
            return None
        self._promises.fulfill(found.id)
        waiting = PendingMessage(message.topic, message.data, found.size, now, {peer: None})
        if not self.pending.add(found.id, waiting):
            self._peers.event_counts["REJECT_MESSAGE"] += 1
            return None
        self._seen.add(found.id, now)
        return UnvalidatedMessage(found.id, message.topic, peer, found.content)

    def finish(self, message: MessageId, verdict: ValidationResult) -> PendingMessage | None:
        """Ends the wait of a message; the message if it is to be passed on."""
        pending = self.pending.take(message)
        if pending is None:
            return None
        if verdict is ValidationResult.ACCEPT:
            self._peers.event_counts["DELIVER_MESSAGE"] += 1
            return pending
        self._peers.event_counts["REJECT_MESSAGE"] += 1
        if verdict is ValidationResult.REJECT:
            self._charge_wasted_bytes(pending.senders, pending.size)
        return None

    def heartbeat(self, now: float) -> None:
        """Forgets what was seen long ago, and gives up waiting for verdicts that do not come."""
        self._seen.remove_expired(now)
        for message in self.pending.older_than(now - VALIDATION_TIMEOUT):
            self.finish(message, ValidationResult.IGNORE)

    def _decode(self, topic: str, data: bytes) -> _DecodedMessage:
        content = snappy.decompress(data)
        size = len(data) + (0 if isinstance(content, SnappyFailure) else len(content))
        return _DecodedMessage(message_id(self._id_scheme, topic, data, content), content, size)

    def _reject(self, peer: PeerId, size: int) -> None:
        self._peers.event_counts["REJECT_MESSAGE"] += 1
        self._charge_wasted_bytes((peer,), size)

    def _add_duplicate(self, peer: PeerId, found: _DecodedMessage) -> None:
        self._peers.event_counts["DUPLICATE_MESSAGE"] += 1
        self._charge_wasted_bytes((peer,), found.size)
        pending = self.pending.get(found.id)
        if pending is not None:
            pending.senders[peer] = None

    def _charge_wasted_bytes(self, peers: Iterable[PeerId], size: int) -> None:
        for peer in peers:
            state = self._peers.states.get(peer)
            if state is not None:
                state.wasted_bytes_budget -= size + self._params.wasted_message_overhead
