"""Session keys, each bound to a node and its UDP endpoint, and the challenges sent to nodes without a session."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from rollup_node.stages.p2p.addresses.ip import host_prefix
from rollup_node.stages.p2p.addresses.peer_id import NodeId
from rollup_node.stages.p2p.discv5.enr import Endpoint, Enr
from rollup_node.stages.p2p.discv5.packets import NONCE_SIZE, MessagePacket, decrypt

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class BoundedMap(Generic[K, V]):
    """At most `max_size` entries, of which at most `max_per_group` belong to one group (such as an IP address)."""

    def __init__(self, max_size: int, max_per_group: int) -> None:
        self._max_size, self._max_per_group = max_size, max_per_group
        self._entries: OrderedDict[K, tuple[bytes, V]] = OrderedDict()
        self._groups: dict[bytes, OrderedDict[K, None]] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def clear(self) -> None:
        self._entries.clear()
        self._groups.clear()

    def get(self, key: K) -> V | None:
        """Return the value of a key, which counts as a use; None when it is absent."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        self._entries.move_to_end(key)
        self._groups[entry[0]].move_to_end(key)
        return entry[1]

    def put(self, key: K, group: bytes, value: V) -> None:
        """Set a value; entries beyond the bounds are evicted, those of the same group first."""
        self.pop(key)
        if len(members := self._groups.get(group, ())) >= self._max_per_group:
            self.pop(next(iter(members)))
        if len(self._entries) >= self._max_size:
            self.pop(next(iter(self._entries)))
        self._entries[key] = (group, value)
        self._groups.setdefault(group, OrderedDict())[key] = None

    def pop(self, key: K) -> V | None:
        """Remove an entry and return its value."""
        entry = self._entries.pop(key, None)
        if entry is None:
            return None
        group, value = entry
        members = self._groups[group]
        del members[key]
        if not members:
            del self._groups[group]
        return value


CHALLENGE_TIMEOUT = 1.0
"""Seconds within which a challenge may be answered."""
MAX_SESSIONS = 1000
MAX_SESSIONS_PER_HOST = 128
MAX_CHALLENGES = 1000
MAX_CHALLENGES_PER_HOST = 64
_CHALLENGES_PER_NODE = 3
_SESSIONS_PER_NODE = 2
_REMEMBERED_NONCES = 32
_MAX_MESSAGES = 1 << 32

RandomBytes = Callable[[int], bytes]
"""Returns that many unpredictable bytes."""
Key = tuple[NodeId, Endpoint]


@dataclass
class Discv5Session:
    """Two keys, the messages encrypted with ours, the last nonces of theirs; a later handshake has a higher order."""

    write_key: bytes
    read_key: bytes
    order: int
    message_count: int = 0
    seen_nonces: "OrderedDict[bytes, None]" = field(default_factory=OrderedDict)

    def next_nonce(self, random: RandomBytes) -> bytes:
        """Return a nonce never used with this key: the message count, then random bytes."""
        self.message_count += 1
        return self.message_count.to_bytes(4, "big") + random(NONCE_SIZE - 4)

    def accept_nonce(self, nonce: bytes) -> bool:
        """Record the nonce of a decrypted message; False when it was seen before."""
        if nonce in self.seen_nonces:
            return False
        self.seen_nonces[nonce] = None
        if len(self.seen_nonces) > _REMEMBERED_NONCES:
            self.seen_nonces.popitem(last=False)
        return True


class DecryptedMessage(NamedTuple):
    """The plaintext of a message; None when it is a replay."""

    plaintext: bytes | None


class Sessions:
    """The sessions by node and endpoint, newest first.

    Two are kept of each, because both ends may start a handshake at the same time. Other implementations keep one,
    that of the handshake which they sent or received last: if ours left after our challenge, they received it after
    they had sent theirs, and from then on read with its keys."""

    def __init__(self) -> None:
        self._kept: BoundedMap[Key, tuple[Discv5Session, ...]] = BoundedMap(MAX_SESSIONS, MAX_SESSIONS_PER_HOST)

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, node: NodeId, endpoint: Endpoint, session: Discv5Session) -> None:
        """Add a session; that of the highest order is written with from now on."""
        kept = (session, *(self._kept.get((node, endpoint)) or ()))[:_SESSIONS_PER_NODE]
        newest_first = sorted(kept, key=lambda item: item.order, reverse=True)
        self._kept.put((node, endpoint), host_prefix(endpoint.ip), tuple(newest_first))

    def clear(self) -> None:
        self._kept.clear()

    def newest(self, node: NodeId, endpoint: Endpoint) -> Discv5Session | None:
        """Return the session to write with; None when there is none."""
        kept = self._kept.get((node, endpoint))
        return kept[0] if kept and kept[0].message_count < _MAX_MESSAGES - 1 else None

    def decrypt(self, packet: MessagePacket, sender: Endpoint) -> DecryptedMessage | None:
        """Decrypt a message with any of the sessions of its sender; None when none of them can."""
        for session in self._kept.get((packet.source, sender)) or ():
            plaintext = decrypt(session.read_key, packet.nonce, packet.ciphertext, packet.authenticated_data)
            if plaintext is not None:
                return DecryptedMessage(plaintext if session.accept_nonce(packet.nonce) else None)
        return None


class SentChallenge(NamedTuple):
    """A WHOAREYOU that was sent, our record of the node, and its order among our challenges and handshakes."""

    challenge_data: bytes
    record: Enr | None
    expires_at: float
    order: int


class Challenges:
    """The challenges that may still be answered, the last few of each node, so that forged messages replace none."""

    def __init__(self) -> None:
        self._kept: BoundedMap[Key, tuple[SentChallenge, ...]] = BoundedMap(MAX_CHALLENGES, MAX_CHALLENGES_PER_HOST)

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, node: NodeId, endpoint: Endpoint, challenge: SentChallenge, now: float) -> None:
        """Record a challenge that is being sent."""
        challenges = (challenge, *self.pending(node, endpoint, now))[:_CHALLENGES_PER_NODE]
        self._kept.put((node, endpoint), host_prefix(endpoint.ip), challenges)

    def pending(self, node: NodeId, endpoint: Endpoint, now: float) -> tuple[SentChallenge, ...]:
        """Return the challenges that the node may still answer, newest first."""
        return tuple(result for result in self._kept.get((node, endpoint)) or () if result.expires_at > now)

    def remove(self, node: NodeId, endpoint: Endpoint) -> None:
        self._kept.pop((node, endpoint))
