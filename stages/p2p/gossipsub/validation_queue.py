"""Messages from arrival to validation result: each once; duplicates and rejected ones are charged to their senders."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from hashlib import sha256
from typing import NamedTuple

from rollup_node.stages.p2p.addresses.peer_id import PeerId
from rollup_node.stages.p2p.encoding import snappy
from rollup_node.stages.p2p.encoding.snappy import SnappyFailure
from rollup_node.stages.p2p.gossipsub import params as gossip_params
from rollup_node.stages.p2p.gossipsub.lazy_gossip import GossipPromises
from rollup_node.stages.p2p.gossipsub.peers import MessageId, PeerTable, TraceEvent
from rollup_node.stages.p2p.gossipsub.rpc import PubsubMessage
from rollup_node.stages.protocol.pacing import TokenBucket

ID_SIZE = 20
_INVALID_SNAPPY, _VALID_SNAPPY = bytes(4), b"\x01\0\0\0"


class ValidationResult(Enum):
    """The validation result of gossipsub v1.1: forward the message, drop it, or drop it and penalize the sender."""

    ACCEPT = "accept"
    IGNORE = "ignore"
    REJECT = "reject"


class UnvalidatedMessage(NamedTuple):
    """A message that awaits its validation result; `content` is its data decompressed, or why that failed."""

    id: MessageId
    topic: str
    peer: PeerId
    content: bytes | SnappyFailure


def message_id(topic: str, data: bytes, content: bytes | SnappyFailure) -> MessageId:
    """Return the id of a message whose `data` decompresses to `content`, by op-node's rule [GSP5]."""
    domain, hashed = (_INVALID_SNAPPY, data) if isinstance(content, SnappyFailure) else (_VALID_SNAPPY, content)
    name = topic.encode()
    return sha256(b"".join((domain, len(name).to_bytes(8, "little"), name, hashed))).digest()[:ID_SIZE]


@dataclass
class PendingMessage:
    """A message from arrival to validation result; `senders` are all peers that sent it, the first one first."""

    topic: str
    data: bytes
    size: int
    received_at: float
    senders: dict[PeerId, None] = field(default_factory=dict)


class ValidationQueue:
    """The seen cache, and the messages whose validation is pending: oldest first, bounded in number and bytes."""

    def __init__(self, params: gossip_params.GossipParams, peers: PeerTable, promises: GossipPromises) -> None:
        self._params, self._peers, self._promises = params, peers, promises
        self.seen = SeenCache(params.seen_ttl, gossip_params.MAX_SEEN)
        self.pending: dict[MessageId, PendingMessage] = {}
        self.pending_bytes = 0

    def add_published(self, topic: str, data: bytes, now: float) -> MessageId | None:
        """Mark a message of our own as seen; returns its id, None if it was seen before."""
        message_id, _, _ = _decode(topic, data)
        return message_id if self.seen.add(message_id, now) else None

    def receive(self, peer: PeerId, message: PubsubMessage, now: float) -> UnvalidatedMessage | None:
        """Take a message in a joined topic; return it if it must be validated. A signed one is rejected [GSP4]."""
        if self._peers.states[peer].wasted_bytes_budget <= 0:
            return None
        if message.is_signed:
            self._peers.event_counts[TraceEvent.REJECT_MESSAGE] += 1
            self._charge_wasted_bytes((peer,), len(message.data))
            return None
        # Checked before anything is decompressed: a message may hold much that decompresses to twenty times as much.
        size = self.pending_bytes + _declared_size(message.data)
        if len(self.pending) >= gossip_params.MAX_PENDING_MESSAGES or size > gossip_params.MAX_PENDING_BYTES:
            self._peers.event_counts[TraceEvent.REJECT_MESSAGE] += 1
            return None
        message_id, content, size = _decode(message.topic, message.data)
        if self.seen.has(message_id, now):
            self._peers.event_counts[TraceEvent.DUPLICATE_MESSAGE] += 1
            self._charge_wasted_bytes((peer,), size)
            if message_id in self.pending:
                self.pending[message_id].senders[peer] = None
            return None
        self._promises.fulfill(message_id)
        self.pending[message_id] = PendingMessage(message.topic, message.data, size, now, {peer: None})
        self.pending_bytes += size
        self.seen.add(message_id, now)
        return UnvalidatedMessage(message_id, message.topic, peer, content)

    def finish(self, message_id: MessageId, result: ValidationResult) -> PendingMessage | None:
        """End the validation of a message; returns it if it is to be forwarded."""
        pending = self.pending.pop(message_id, None)
        if pending is None:
            return None
        self.pending_bytes -= pending.size
        if result is ValidationResult.ACCEPT:
            self._peers.event_counts[TraceEvent.DELIVER_MESSAGE] += 1
            return pending
        self._peers.event_counts[TraceEvent.REJECT_MESSAGE] += 1
        if result is ValidationResult.REJECT:
            self._charge_wasted_bytes(pending.senders, pending.size)
        return None

    def heartbeat(self, now: float) -> None:
        """Expire the seen cache, and ignore messages whose validation takes too long."""
        self.seen.remove_expired(now)
        oldest = now - gossip_params.VALIDATION_TIMEOUT
        for expired in [item for item, message in self.pending.items() if message.received_at < oldest]:
            self.finish(expired, ValidationResult.IGNORE)

    def _charge_wasted_bytes(self, peers: Iterable[PeerId], size: int) -> None:
        for peer in peers:
            state = self._peers.states.get(peer)
            if state is not None:
                state.wasted_bytes_budget -= size + self._params.wasted_message_overhead


def _decode(topic: str, data: bytes) -> tuple[MessageId, bytes | SnappyFailure, int]:
    """Return id, content, and the size compressed and decompressed."""
    content = snappy.decompress(data)
    size = len(data) + (0 if isinstance(content, SnappyFailure) else len(content))
    return message_id(topic, data, content), content, size


def _declared_size(data: bytes) -> int:
    """Return the size of a message with what it says that it decompresses to, within the limit."""
    length = snappy.declared_length(data) or 0
    return len(data) + (length if length <= snappy.MAX_BYTES else 0)


class SeenCache:
    """Message ids with their expiry after `ttl` seconds, at most `max_size` of them. Times must not decrease."""

    def __init__(self, ttl: float, max_size: int) -> None:
        self._ttl, self._max_size = ttl, max_size
        self._expiries: dict[MessageId, float] = {}

    def __len__(self) -> int:
        return len(self._expiries)

    def has(self, message_id: MessageId, now: float) -> bool:
        """Whether the message was added within the TTL."""
        expiry = self._expiries.get(message_id)
        return expiry is not None and now < expiry

    def add(self, message_id: MessageId, now: float) -> bool:
        """Add a message; returns False, and changes nothing, if it is present."""
        if self.has(message_id, now):
            return False
        self._expiries.pop(message_id, None)
        self._expiries[message_id] = now + self._ttl
        if len(self._expiries) > self._max_size:
            del self._expiries[next(iter(self._expiries))]
        return True

    def remove_expired(self, now: float) -> None:
        while self._expiries:
            oldest = next(iter(self._expiries))
            if self._expiries[oldest] > now:
                return
            del self._expiries[oldest]


TOTAL_SHARE = 0.3
"""The share of one core that useless RPCs of all peers together may take."""
MIN_PEERS = 10
"""Each peer's share is at most what it would be with this many peers."""
MAX_SAVED = 0.25


class WorkBudget:
    """The balance of each peer in seconds of work, negative in debt; it begins with 0. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._buckets: dict[PeerId, TokenBucket] = {}

    def __len__(self) -> int:
        return len(self._buckets)

    def charge(self, peer: PeerId, work: float, now: float) -> None:
        """Charge a peer with seconds of useless work."""
        bucket = self._buckets.get(peer)
        rate = self._rate
        if bucket is None:
            self._buckets[peer] = bucket = TokenBucket(rate, MAX_SAVED)
            work += MAX_SAVED
        bucket.rate = rate
        bucket.consume(now, work)

    def delay(self, peer: PeerId, now: float) -> float:
        """Return the seconds until the peer is out of debt."""
        bucket = self._buckets.get(peer)
        if bucket is None:
            return 0.0
        bucket.rate = self._rate
        return bucket.delay(now, 0.0)

    def remove_peer(self, peer: PeerId) -> None:
        self._buckets.pop(peer, None)

    @property
    def _rate(self) -> float:
        return TOTAL_SHARE / max(MIN_PEERS, len(self._buckets))
