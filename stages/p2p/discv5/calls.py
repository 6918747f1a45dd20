"""Requests in flight.

At most one at a time is sent to a node, so that a handshake always belongs to one request; others are queued. A
request to a node that is about to answer our challenge waits for its handshake: other implementations give up the
session of theirs for a packet that they cannot decrypt."""

from collections import deque
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from rollup_node.stages.p2p.addresses.peer_id import NodeId
from rollup_node.stages.p2p.discv5 import messages
from rollup_node.stages.p2p.discv5.enr import Contact, Endpoint, Enr, EnrError, decode_enr, log_distance
from rollup_node.stages.p2p.discv5.packet_codec import AuthenticMessage, PacketCodec, PacketDrop
from rollup_node.stages.p2p.discv5.packets import WhoAreYou
from rollup_node.stages.p2p.discv5.sessions import RandomBytes
from rollup_node.stages.p2p.discv5.table import Lookup

CALL_TIMEOUT = 0.7
"""Seconds to wait for a response; a handshake restarts them."""
MAX_ACTIVE_CALLS = 128
MAX_QUEUED = 4
_MAX_RESPONSES = 16


class DiscoveryPurpose(Enum):
    """What a request is for: revalidation of a node, fetching its record, or a lookup."""

    REVALIDATE = "revalidate"
    FETCH = "fetch"
    LOOKUP = "lookup"


@dataclass
class OutgoingCall:
    """A request: PING without `distances`, else FINDNODE. The fields after `lookup` are its progress."""

    contact: Contact
    purpose: DiscoveryPurpose
    distances: tuple[int, ...] = ()
    lookup: Lookup | None = None
    request_id: bytes = b""
    plaintext: bytes = b""
    nonce: bytes = b""
    """Empty while the call waits for a handshake."""

    deadline: float = 0.0
    responses: int = 0
    records: dict[NodeId, Enr] = field(default_factory=dict)


class DiscoveryResult(NamedTuple):
    """The end of a call: whether the node `responded`, by a PONG or with the call's records."""

    call: OutgoingCall
    responded: bool
    pong: messages.Pong | None = None


class OutgoingPacket(NamedTuple):
    datagram: bytes
    endpoint: Endpoint


class ActiveCalls:
    """All calls of a node. Packets to send are left in `outbox`."""

    def __init__(self, codec: PacketCodec, random: RandomBytes) -> None:
        self._codec, self._random = codec, random
        self._active: dict[NodeId, OutgoingCall] = {}
        self._queued: dict[NodeId, deque[OutgoingCall]] = {}
        self._by_nonce: dict[bytes, OutgoingCall] = {}
        self.outbox: list[OutgoingPacket] = []

    def __len__(self) -> int:
        return len(self._active)

    def count(self, purpose: DiscoveryPurpose) -> int:
        return sum(call.purpose is purpose for call in self._active.values())

    def has_call(self, node: NodeId) -> bool:
        return node in self._active

    def submit(self, call: OutgoingCall, enr_seq: int, now: float) -> bool:
        """Send a request, or queue it behind the active one to the same node; False when there are too many."""
        node = call.contact.node_id
        if node not in self._active:
            if len(self._active) >= MAX_ACTIVE_CALLS:
                return False
            self._start(call, enr_seq, now)
            return True
        queued = self._queued.setdefault(node, deque())
        if len(queued) >= MAX_QUEUED:
            return False
        queued.append(call)
        return True

    def handle_whoareyou(self, whoareyou: WhoAreYou, sender: Endpoint, own: Enr, now: float) -> bool:
        """Answer a WHOAREYOU with a handshake; False when it is not for a request of ours to this address."""
        call = self._by_nonce.get(whoareyou.nonce)
        if call is None or call.contact.endpoint != sender:
            return False
        del self._by_nonce[whoareyou.nonce]
        datagram = self._codec.encode_handshake(call.contact, whoareyou, own, call.plaintext)
        if datagram is None:
            return False
        call.deadline = now + CALL_TIMEOUT
        self.outbox.append(OutgoingPacket(datagram, sender))
        return True

    def handle_response(self, received: AuthenticMessage, own: Enr, now: float) -> DiscoveryResult | PacketDrop | None:
        """Handle a response; return the result once the call is complete, UNSOLICITED if there is no such call."""
        call = self._active.get(received.node)
        message = received.message
        if call is None or call.contact.endpoint != received.endpoint or call.request_id != message.request_id:
            return PacketDrop.UNSOLICITED
        if isinstance(message, messages.Pong) and not call.distances:
            return self._finish(DiscoveryResult(call, True, message), own, now)
        if isinstance(message, messages.Nodes) and call.distances:
            call.responses += 1
            _collect(call, message)
            if call.responses >= min(max(message.total, 1), _MAX_RESPONSES):
                return self._finish(DiscoveryResult(call, True), own, now)
            return None
        return PacketDrop.UNSOLICITED

    def session_established(self, node: NodeId, now: float) -> None:
        """Send the request that waited for the node's handshake, if there is one."""
        call = self._active.get(node)
        if call is not None and not call.nonce:
            self._transmit(call, now)

    def expire(self, own: Enr, now: float) -> list[DiscoveryResult]:
        """End the calls whose timeout is over, and send those that waited for a handshake."""
        due = [call for call in self._active.values() if call.deadline <= now]
        for call in due:
            if not call.nonce:
                self._transmit(call, now)
        return [
            self._finish(DiscoveryResult(call, call.responses > 0), own, now) for call in due if call.deadline <= now
        ]

    def _start(self, call: OutgoingCall, enr_seq: int, now: float) -> None:
        call.request_id = self._request_id()
        request = (
            messages.FindNode(call.request_id, call.distances)
            if call.distances
            else messages.Ping(call.request_id, enr_seq)
        )
        call.plaintext = messages.encode(request)
        node, endpoint = call.contact.node_id, call.contact.endpoint
        self._active[node] = call
        if self._codec.is_handshake_due(node, endpoint, now):
            call.deadline = now + CALL_TIMEOUT
        else:
            self._transmit(call, now)

    def _transmit(self, call: OutgoingCall, now: float) -> None:
        node, endpoint = call.contact.node_id, call.contact.endpoint
        packet = self._codec.encode_message(node, endpoint, call.plaintext) or self._codec.encode_random(node)
        call.nonce, call.deadline = packet.nonce, now + CALL_TIMEOUT
        self._by_nonce[packet.nonce] = call
        self.outbox.append(OutgoingPacket(packet.datagram, endpoint))

    def _finish(self, result: DiscoveryResult, own: Enr, now: float) -> DiscoveryResult:
        call = result.call
        node = call.contact.node_id
        del self._active[node]
        self._by_nonce.pop(call.nonce, None)
        queued = self._queued.get(node)
        if queued:
            self._start(queued.popleft(), own.seq, now)
        if not queued:
            self._queued.pop(node, None)
        return result

    def _request_id(self) -> bytes:
        """Eight bytes, the first not zero: some implementations treat the id as a number and drop leading zeros."""
        raw = self._random(8)
        return raw if raw[0] else b"\x01" + raw[1:]


def _collect(call: OutgoingCall, message: messages.Nodes) -> None:
    """Keep the valid records whose distance was requested."""
    for raw in message.records:
        if len(call.records) >= messages.MAX_RECORDS:
            return
        try:
            record = decode_enr(raw)
        except EnrError:
            continue
        if log_distance(record.node_id, call.contact.node_id) in call.distances:
            call.records[record.node_id] = record
