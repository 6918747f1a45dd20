"""Keys shared with other nodes, each bound to one UDP address, and the challenges sent to those with whom there are
none yet. Both are kept in bounded numbers; a session that was dropped is simply made anew."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from rollup_node.stages.p2p.addresses.ip import host_prefix
from rollup_node.stages.p2p.discv5 import crypto
from rollup_node.stages.p2p.discv5.bounded_map import BoundedMap
from rollup_node.stages.p2p.discv5.contact import Endpoint, NodeId
from rollup_node.stages.p2p.discv5.enr import Enr
from rollup_node.stages.p2p.discv5.packets import NONCE_SIZE, MessagePacket

CHALLENGE_TIMEOUT = 1.0
"""How long a challenge may be answered."""
MAX_SESSIONS = 1000
MAX_SESSIONS_PER_HOST = 128
MAX_CHALLENGES = 1000
MAX_CHALLENGES_PER_HOST = 64
_CHALLENGES_PER_NODE = 3
_SESSIONS_PER_NODE = 2
_REMEMBERED_NONCES = 32
_MAX_MESSAGES = 1 << 32

RandomBytes = Callable[[int], bytes]
"""That many unpredictable bytes."""
Key = tuple[NodeId, Endpoint]


@dataclass
class Discv5Session:
    """Two keys, how many messages were sealed with ours, and the nonces last seen of theirs, against repetition."""

    write_key: bytes
    read_key: bytes
    message_count: int = 0
    seen_nonces: "OrderedDict[bytes, None]" = field(default_factory=OrderedDict)

    def next_nonce(self, random: RandomBytes) -> bytes:
        """A nonce that was never used with this key: the count, then random bytes."""
        self.message_count += 1
        return self.message_count.to_bytes(4, "big") + random(NONCE_SIZE - 4)

    @property
    def is_exhausted(self) -> bool:
        """Whether no nonce is left."""
        return self.message_count >= _MAX_MESSAGES - 1

    def accept_nonce(self, nonce: bytes) -> bool:
        """Notes the nonce of a message that was opened; False if it had been seen before."""
        if nonce in self.seen_nonces:
            return False
        self.seen_nonces[nonce] = None
        if len(self.seen_nonces) > _REMEMBERED_NONCES:
            self.seen_nonces.popitem(last=False)
        return True


class DecryptedMessage(NamedTuple):
    """What a session made of a message: `plain` is None if it was opened before."""

    plain: bytes | None


class Sessions:
    """The sessions by node and address, newest first. Two are kept of each, because both ends may shake hands at the
    same moment and then write with different keys."""

    def __init__(self) -> None:
        self._kept: BoundedMap[Key, tuple[Discv5Session, ...]] = BoundedMap(MAX_SESSIONS, MAX_SESSIONS_PER_HOST)

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, node: NodeId, endpoint: Endpoint, session: Discv5Session) -> None:
        """Makes this the session to write with."""
        older = self._kept.get((node, endpoint)) or ()
        self._kept.put((node, endpoint), host_prefix(endpoint.ip), (session, *older)[:_SESSIONS_PER_NODE])

    def clear(self) -> None:
        """Drops all sessions."""
        self._kept.clear()

    def newest(self, node: NodeId, endpoint: Endpoint) -> Discv5Session | None:
        """The session to write with; None if there is none."""
        found = self._kept.get((node, endpoint))
        return found[0] if found and not found[0].is_exhausted else None

    def decrypt(self, packet: MessagePacket, sender: Endpoint) -> DecryptedMessage | None:
        """Opens a message by any of the sessions with its sender; None if none of them can."""
        for session in self._kept.get((packet.source, sender)) or ():
            plain = crypto.decrypt(session.read_key, packet.nonce, packet.ciphertext, packet.authenticated_data)
            if plain is not None:
                return DecryptedMessage(plain if session.accept_nonce(packet.nonce) else None)
        return None


class Challenge(NamedTuple):
    """A WHOAREYOU that was sent: what the handshake must be bound to, and the record known when it was."""

    challenge_data: bytes
    record: Enr | None
    expires_at: float


class Challenges:
    """The challenges that may still be answered, the last few of each node, so that nobody can replace one by forging
    messages in another's name."""

    def __init__(self) -> None:
        self._kept: BoundedMap[Key, tuple[Challenge, ...]] = BoundedMap(MAX_CHALLENGES, MAX_CHALLENGES_PER_HOST)

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, node: NodeId, endpoint: Endpoint, challenge: Challenge, now: float) -> None:
        """Notes one that is being sent."""
        fresh = (challenge, *self.pending(node, endpoint, now))[:_CHALLENGES_PER_NODE]
        self._kept.put((node, endpoint), host_prefix(endpoint.ip), fresh)

    def pending(self, node: NodeId, endpoint: Endpoint, now: float) -> tuple[Challenge, ...]:
        """Those that this node may still answer, newest first."""
        return tuple(found for found in self._kept.get((node, endpoint)) or () if found.expires_at > now)

    def remove(self, node: NodeId, endpoint: Endpoint) -> None:
        """Drops the challenges of a node that has answered one."""
        self._kept.pop((node, endpoint))
