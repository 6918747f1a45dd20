"""Messages: ids, the cache of accepted ones for peers (mcache), whose newest are announced, and ids seen."""

from collections.abc import Hashable, Iterator
from enum import Enum
from hashlib import sha256
from typing import Generic, NamedTuple, TypeVar

from rollup_node.stages.p2p.addresses.peer_id import PeerId
from rollup_node.stages.p2p.encoding.snappy import SnappyFailure

MessageId = bytes
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


class CachedMessage(NamedTuple):
    """A message ready to be sent; `frame` is it as one whole RPC, shared by all queues that hold it."""

    topic: str
    frame: bytes


class MessageCache:
    """A sliding window of `history` heartbeats; ids of the last `gossip` of them are announced."""

    def __init__(self, history: int, gossip: int) -> None:
        self._windows: list[list[MessageId]] = [[] for _ in range(history)]
        self._gossip = gossip
        self._messages: dict[MessageId, CachedMessage] = {}
        self._sent: dict[MessageId, dict[PeerId, int]] = {}

    def __len__(self) -> int:
        return len(self._messages)

    def put(self, message_id: MessageId, message: CachedMessage) -> None:
        """Add a message to the newest window."""
        if message_id not in self._messages:
            self._windows[0].append(message_id)
        self._messages[message_id] = message

    def get_for_peer(self, message_id: MessageId, peer: PeerId) -> tuple[CachedMessage, int] | None:
        """Return a message that a peer requests, and how often it has requested it; None when it is not cached."""
        message = self._messages.get(message_id)
        if message is None:
            return None
        counts = self._sent.setdefault(message_id, {})
        counts[peer] = counts.get(peer, 0) + 1
        return message, counts[peer]

    def gossip_ids(self, topic: str) -> list[MessageId]:
        """Return the ids to announce in a topic."""
        return [item for item in self._newest() if self._messages[item].topic == topic]

    def shift(self) -> None:
        """Start a new window and drop the oldest."""
        for message_id in self._windows.pop():
            del self._messages[message_id]
            self._sent.pop(message_id, None)
        self._windows.insert(0, [])

    def _newest(self) -> Iterator[MessageId]:
        for window in self._windows[: self._gossip]:
            yield from window


K = TypeVar("K", bound=Hashable)


class SeenCache(Generic[K]):
    """Keys with their expiry after `ttl` seconds, at most `max_size` of them. Times must not decrease."""

    def __init__(self, ttl: float, max_size: int) -> None:
        self._ttl, self._max_size = ttl, max_size
        self._expiries: dict[K, float] = {}

    def __len__(self) -> int:
        return len(self._expiries)

    def has(self, key: K, now: float) -> bool:
        """Whether the key was added within the TTL."""
        expiry = self._expiries.get(key)
        return expiry is not None and now < expiry

    def add(self, key: K, now: float) -> bool:
        """Add a key; returns False, and changes nothing, if it is present."""
        if self.has(key, now):
            return False
        self._expiries.pop(key, None)
        self._expiries[key] = now + self._ttl
        if len(self._expiries) > self._max_size:
            del self._expiries[next(iter(self._expiries))]
        return True

    def remove_expired(self, now: float) -> None:
        while self._expiries:
            key = next(iter(self._expiries))
            if self._expiries[key] > now:
                return
            del self._expiries[key]
