"""Requests that were sent and not yet answered. One at a time goes to a node, so that a handshake never has to choose
between several; the others wait their turn."""

from collections import deque
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from rollup_node.stages.p2p.discv5 import messages
from rollup_node.stages.p2p.discv5.contact import Contact, Endpoint, NodeId, log_distance
from rollup_node.stages.p2p.discv5.enr import Enr, EnrError, decode_enr
from rollup_node.stages.p2p.discv5.lookup import Lookup
from rollup_node.stages.p2p.discv5.packet_codec import AuthenticMessage, PacketCodec
from rollup_node.stages.p2p.discv5.packets import WhoAreYou
from rollup_node.stages.p2p.discv5.sessions import RandomBytes

CALL_TIMEOUT = 0.7
"""Seconds for an answer; a handshake starts them anew."""
MAX_ACTIVE_CALLS = 128
MAX_WAITING = 4
_MAX_HANDSHAKES = 1
_MAX_ANSWERS = 16


class CallPurpose(Enum):
    """What a request is for."""

    CHECK = "check"
    FETCH = "fetch"
    LOOKUP = "lookup"


@dataclass
class OutgoingCall:
    """A request: a PING if there are no `distances`. What is below `lookup` is its progress."""

    contact: Contact
    purpose: CallPurpose
    distances: tuple[int, ...] = ()
    lookup: Lookup | None = None
    request_id: bytes = b""
    plain: bytes = b""
    nonce: bytes = b""
    deadline: float = 0.0
    handshakes: int = 0
    answers: int = 0
    records: dict[NodeId, Enr] = field(default_factory=dict)


class CallResult(NamedTuple):
    """The end of a call: it was answered (by a PONG, or with the call's records) or not."""

    call: OutgoingCall
    answered: bool
    pong: messages.Pong | None = None


class OutgoingPacket(NamedTuple):
    """A datagram and where it goes."""

    datagram: bytes
    endpoint: Endpoint


class ActiveCalls:
    """All calls of a node. What must be sent is left in `outbox`."""

    def __init__(self, channel: PacketCodec, random: RandomBytes) -> None:
        self._channel = channel
        self._random = random
        self._active: dict[NodeId, OutgoingCall] = {}
        self._waiting: dict[NodeId, deque[OutgoingCall]] = {}
        self._by_nonce: dict[bytes, OutgoingCall] = {}
        self.outbox: list[OutgoingPacket] = []

    def __len__(self) -> int:
        return len(self._active)

    def count(self, purpose: CallPurpose) -> int:
        """How many calls for this purpose are under way."""
        return sum(call.purpose is purpose for call in self._active.values())

    def has_call(self, node: NodeId) -> bool:
        """Whether a node is being asked something."""
        return node in self._active

    def submit(self, call: OutgoingCall, record_seq: int, now: float) -> bool:
        """Sends a request, or lets it wait for the one before it; False when there are too many."""
        node = call.contact.node_id
        if node not in self._active:
            if len(self._active) >= MAX_ACTIVE_CALLS:
                return False
            self._start(call, record_seq, now)
            return True
        waiting = self._waiting.setdefault(node, deque())
        if len(waiting) >= MAX_WAITING:
            return False
        waiting.append(call)
        return True

    def handle_whoareyou(self, whoareyou: WhoAreYou, sender: Endpoint, own: Enr, now: float) -> bool:
        """Answers a challenge; False if it is not for a request of ours to this address."""
        call = self._by_nonce.get(whoareyou.nonce)
        if call is None or call.contact.endpoint != sender or call.handshakes >= _MAX_HANDSHAKES:
            return False
        del self._by_nonce[whoareyou.nonce]
        datagram = self._channel.encode_handshake(call.contact, whoareyou, own, call.plain)
        if datagram is None:
            return False
        call.handshakes += 1
        call.deadline = now + CALL_TIMEOUT
        self.outbox.append(OutgoingPacket(datagram, sender))
        return True

    def handle_response(self, delivered: AuthenticMessage, own: Enr, now: float) -> CallResult | bool | None:
        """Takes a response: the outcome if the call is complete, None if more is to come, False if nobody asked."""
        call = self._active.get(delivered.node)
        message = delivered.message
        if call is None or call.contact.endpoint != delivered.endpoint or call.request_id != message.request_id:
            return False
        if isinstance(message, messages.Pong) and not call.distances:
            return self._finish(CallResult(call, True, message), own, now)
        if isinstance(message, messages.Nodes) and call.distances:
            call.answers += 1
            _collect(call, message)
            if call.answers >= min(max(message.total, 1), _MAX_ANSWERS):
                return self._finish(CallResult(call, True), own, now)
            return None
        return False

    def expire(self, own: Enr, now: float) -> list[CallResult]:
        """Ends the calls whose time is over; those with part of an answer count as answered."""
        late = [call for call in self._active.values() if call.deadline <= now]
        return [self._finish(CallResult(call, call.answers > 0), own, now) for call in late]

    def _start(self, call: OutgoingCall, record_seq: int, now: float) -> None:
        call.request_id = self._request_id()
        request = (
            messages.FindNode(call.request_id, call.distances)
            if call.distances
            else messages.Ping(call.request_id, record_seq)
        )
        call.plain = messages.encode(request)
        node, endpoint = call.contact.node_id, call.contact.endpoint
        sealed = self._channel.encode_message(node, endpoint, call.plain) or self._channel.encode_random(node)
        call.nonce, call.deadline = sealed.nonce, now + CALL_TIMEOUT
        self._active[node] = self._by_nonce[sealed.nonce] = call
        self.outbox.append(OutgoingPacket(sealed.datagram, endpoint))

    def _finish(self, outcome: CallResult, own: Enr, now: float) -> CallResult:
        call = outcome.call
        node = call.contact.node_id
        del self._active[node]
        self._by_nonce.pop(call.nonce, None)
        waiting = self._waiting.get(node)
        if waiting:
            self._start(waiting.popleft(), own.seq, now)
        if not waiting:
            self._waiting.pop(node, None)
        return outcome

    def _request_id(self) -> bytes:
        """Eight bytes, the first not zero: some nodes take the id for a number and lose leading zeros."""
        raw = self._random(8)
        return raw if raw[0] else b"\x01" + raw[1:]


def _collect(call: OutgoingCall, message: messages.Nodes) -> None:
    """Keeps those records that hold and lie at the distances asked for."""
    for raw in message.records:
        if len(call.records) >= messages.MAX_RECORDS:
            return
        try:
            record = decode_enr(raw)
        except EnrError:
            continue
        if log_distance(record.node_id, call.contact.node_id) in call.distances:
            call.records[record.node_id] = record
