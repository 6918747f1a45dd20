"""The discovery node: datagrams and ticks come in; datagrams, nodes of our chain, and nodes worth storing go out.

It answers requests, revalidates its table, does lookups while peers are wanted, and learns its external address."""

from collections import Counter, OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from rollup_node.stages.p2p.addresses.ip import (
    IpAddress,
    Subnet,
    host_prefix,
    is_plausible_ip,
    is_within,
    network_prefix,
)
from rollup_node.stages.p2p.addresses.peer_id import NodeId
from rollup_node.stages.p2p.discv5 import calls, messages
from rollup_node.stages.p2p.discv5.enr import AdvertisedEndpoint, Contact, Endpoint, Enr, LocalEnr
from rollup_node.stages.p2p.discv5.packet_codec import AuthenticMessage, PacketCodec, PacketDrop
from rollup_node.stages.p2p.discv5.packets import MessagePacket, WhoAreYou
from rollup_node.stages.p2p.discv5.sessions import RandomBytes
from rollup_node.stages.p2p.discv5.table import RESULT_SIZE, Lookup, RoutingTable
from rollup_node.stages.protocol.pacing import KeyedTokenBuckets, backoff

LOOKUP_INTERVAL = 5.0
"""Seconds between lookups while peers are wanted; the first few follow each other faster."""
REFRESH_INTERVAL = 600.0
"""Seconds between lookups that only refresh the table."""
REEMIT_SECONDS = 600.0
ENOUGH_LIVE = 8
"""With fewer live nodes in the table the bootnodes are queried, ever less often."""
MAX_LOOKUPS = 4
_FIRST_LOOKUP_INTERVAL = 0.5
_BOOTNODE_INTERVALS = (2.0, 60.0)
PACKETS_PER_SECOND, PACKET_BURST = 200.0, 500.0
"""Of one host."""

_MAX_HOSTS = 2048
_MAX_REVALIDATIONS = 8
_MAX_CANDIDATES = 128
_MAX_EMITTED = 2048
VOTE_SECONDS = 300.0
MIN_VOTES = 10
_MAX_VOTES = 200


class ChainNodeFound(NamedTuple):
    """A node of our chain that has proved to be at the address in its record; `tcp` is its libp2p endpoint."""

    record: Enr
    tcp: Endpoint


class NodeAlive(NamedTuple):
    """A node of any chain has responded at the address in its record."""

    record: Enr


class NodeGone(NamedTuple):
    """A node no longer responds."""

    node: NodeId


class LocalEnrUpdated(NamedTuple):
    """Our own record has a new version."""

    record: Enr


Discv5Output = calls.OutgoingPacket | ChainNodeFound | NodeAlive | NodeGone | LocalEnrUpdated


@dataclass(frozen=True)
class Discv5Settings:
    """What is sent where (empty `allowed_networks`: anywhere), and whether PONGs may change our record."""

    chain_id: int
    allowed_networks: tuple[Subnet, ...] = ()
    ip_versions: tuple[int, ...] = (4,)
    learn_address: bool = True


class TableStats(NamedTuple):
    """The number of nodes in the table, of live ones, and of these by the chain in their record."""

    nodes: int
    live: int
    ours: int
    other_chain: int
    no_chain: int


class Discv5Node:
    """Our node; `drops` counts dropped datagrams, `peers_wanted` says whether to search. Times are monotonic."""

    def __init__(self, settings: Discv5Settings, secret: bytes, local: LocalEnr, random: RandomBytes) -> None:
        self.settings, self.local_enr = settings, local
        self.codec = PacketCodec(secret, random)
        self.calls = calls.ActiveCalls(self.codec, random)
        self.table = RoutingTable(self.codec.node_id, settings.ip_versions)
        self.ip_votes = IpVotes()
        self.drops: Counter[PacketDrop] = Counter()
        self.peers_wanted = True
        self.lookups: list[Lookup] = []
        self._random = random
        self._learn_address = settings.learn_address
        self._packet_limits: KeyedTokenBuckets[bytes] = KeyedTokenBuckets(PACKETS_PER_SECOND, PACKET_BURST, _MAX_HOSTS)
        self._bootnodes: dict[NodeId, Contact] = {}
        self._candidates: OrderedDict[NodeId, Contact] = OrderedDict()
        self._emitted: OrderedDict[NodeId, tuple[int, float]] = OrderedDict()
        self._outputs: deque[Discv5Output] = deque()
        self._bootnodes_due, self._bootnode_queries = 0.0, 0
        self._lookup_due = self._refresh_due = 0.0
        self._lookup_interval = _FIRST_LOOKUP_INTERVAL

    # --- input and output ---------------------------------------------------------------------------------------------

    def receive_datagram(self, datagram: bytes, sender: Endpoint, now: float) -> None:
        """Handle a datagram; whatever it holds raises nothing."""
        dropped = self._handle_datagram(datagram, sender, now)
        if dropped is not None:
            self.drops[dropped] += 1

    def tick(self, now: float) -> None:
        """Do what is due; to be called several times a second."""
        for result in self.calls.expire(self.local_enr.enr, now):
            self._handle_result(result, now)
        self._query_bootnodes(now)
        self._revalidate(now)
        self._start_due_lookup(now)

    def take_outputs(self) -> list[Discv5Output]:
        """Return the outputs since the last call, in order."""
        for sending in self.calls.outbox:
            self._send(sending)
        self.calls.outbox.clear()
        outputs = list(self._outputs)
        self._outputs.clear()
        return outputs

    def add_bootnodes(self, contacts: Iterable[Contact]) -> None:
        """Add bootnodes, which are queried whenever few live nodes are known."""
        others = [contact for contact in contacts if contact.node_id != self.codec.node_id]
        self._bootnodes.update({contact.node_id: contact for contact in others if self._may_reach(contact.endpoint)})
        self._bootnodes_due, self._bootnode_queries = 0.0, 0

    def add_known_nodes(self, records: Iterable[Enr], now: float) -> None:
        """Add nodes from before a restart; they are pinged before they count as live."""
        for record in records:
            contact = record.contact(self.settings.ip_versions)
            if contact is not None and self._may_reach(contact.endpoint):
                self.table.add_seen_node(record, now)

    def set_address(self, advertised: AdvertisedEndpoint) -> None:
        """Set our address (from a gateway); it is not learned from PONGs any more."""
        self._learn_address = False
        if self.local_enr.update(advertised):
            self._local_enr_updated()

    def start_lookup(self, target: NodeId, now: float) -> Lookup | None:
        """Start a lookup; None when there are too many, or no nodes to start with."""
        seeds = self.table.closest(target, RESULT_SIZE)
        if not seeds or len(self.lookups) >= MAX_LOOKUPS:
            return None
        lookup = Lookup(target, self.codec.node_id)
        lookup.add(seeds)
        self.lookups.append(lookup)
        self._advance_lookup(lookup, now)
        return lookup

    @property
    def is_busy(self) -> bool:
        """Whether a response is awaited, so that ticks matter."""
        return bool(len(self.calls) or self._candidates)

    def table_stats(self) -> TableStats:
        chains = [entry.record.opstack for entry in self.table if entry.is_live]
        ours = sum(self._is_ours(entry.record) for entry in self.table if entry.is_live)
        absent = chains.count(None)
        return TableStats(len(self.table), len(chains), ours, len(chains) - ours - absent, absent)

    # --- responses -------------------------------------------------------------------------------------------------

    def _handle_datagram(self, datagram: bytes, sender: Endpoint, now: float) -> PacketDrop | None:
        if not self._may_reach(sender):
            return PacketDrop.RESTRICTED
        if not self._packet_limits[host_prefix(sender.ip)].allow(now):
            return PacketDrop.TOO_MANY
        received = self.codec.decode(datagram, sender, now)
        if isinstance(received, PacketDrop):
            return received
        if isinstance(received, WhoAreYou):
            is_ours = self.calls.handle_whoareyou(received, sender, self.local_enr.enr, now)
            return None if is_ours else PacketDrop.UNSOLICITED
        if isinstance(received, MessagePacket):
            return self._send_whoareyou(received, sender, now)
        return self._handle_message(received, now)

    def _send_whoareyou(self, packet: MessagePacket, sender: Endpoint, now: float) -> PacketDrop | None:
        entry = self.table.get(packet.source)
        challenge = self.codec.encode_whoareyou(packet, sender, entry.contact if entry else None, now)
        if isinstance(challenge, PacketDrop):
            return challenge
        self._send(calls.OutgoingPacket(challenge, sender))
        return None

    def _handle_message(self, received: AuthenticMessage, now: float) -> PacketDrop | None:
        self._add_handshake_enr(received, now)
        message = received.message
        if isinstance(message, messages.Ping):
            sender = received.endpoint
            pong = messages.Pong(message.request_id, self.local_enr.enr.seq, sender.ip, sender.port)
            self._reply(received, [pong])
            self._fetch_newer_enr(received.node, received.endpoint, message.enr_seq, now)
        elif isinstance(message, messages.FindNode):
            records = self._neighbours(message.distances, received)
            self._reply(received, messages.nodes_messages(message.request_id, records))
        elif isinstance(message, messages.TalkRequest):
            self._reply(received, [messages.TalkResponse(message.request_id, b"")])
        else:
            result = self.calls.handle_response(received, self.local_enr.enr, now)
            if isinstance(result, PacketDrop):
                return result
            if result is not None:
                self._handle_result(result, now)
        self.calls.session_established(received.node, now)
        return None

    def _neighbours(self, distances: tuple[int, ...], request: AuthenticMessage) -> list[bytes]:
        """Return the records for a NODES response; nodes of local networks are passed on within these only."""
        records = [self.local_enr.enr.raw] if 0 in distances else []
        for record in self.table.at_distances(distance for distance in distances if distance):
            contact = record.contact(self.settings.ip_versions)
            if record.node_id != request.node and contact and is_plausible_ip(contact.endpoint.ip, request.endpoint.ip):
                records.append(record.raw)
        return records

    def _reply(self, request: AuthenticMessage, responses: Iterable[messages.Discv5Message]) -> None:
        for response in responses:
            packet = self.codec.encode_message(request.node, request.endpoint, messages.encode(response))
            if packet is not None:
                self._send(calls.OutgoingPacket(packet.datagram, request.endpoint))

    # --- calls ----------------------------------------------------------------------------------------------------

    def _submit(self, call: calls.OutgoingCall, now: float) -> bool:
        return self._may_reach(call.contact.endpoint) and self.calls.submit(call, self.local_enr.enr.seq, now)

    def _handle_result(self, result: calls.DiscoveryResult, now: float) -> None:
        call = result.call
        node, endpoint = call.contact.node_id, call.contact.endpoint
        if result.responded:
            for record in call.records.values():
                self._add_seen_enr(record, endpoint.ip, now)
            if call.contact.record is not None:
                self._add_seen_enr(call.contact.record, endpoint.ip, now)
            self._mark_verified(result, call.records.get(node) or call.contact.record, now)
            if result.pong is not None:
                self._add_ip_vote(result.pong, node, endpoint, now)
                self._fetch_newer_enr(node, endpoint, result.pong.enr_seq, now)
        elif self.table.record_failure(node, now) is not None:
            self._emitted.pop(node, None)
            self._outputs.append(NodeGone(node))
        if call.lookup is not None:
            self._continue_lookup(call.lookup, result, now)

    def _continue_lookup(self, lookup: Lookup, result: calls.DiscoveryResult, now: float) -> None:
        node = result.call.contact.node_id
        if result.responded:
            contacts = (record.contact(self.settings.ip_versions) for record in result.call.records.values())
            seen = result.call.contact.endpoint.ip
            lookup.add_response(node, [contact for contact in contacts if contact and self._is_usable(contact, seen)])
        else:
            lookup.add_failure(node)
        self._advance_lookup(lookup, now)

    def _advance_lookup(self, lookup: Lookup, now: float) -> None:
        while queries := lookup.next_queries():
            for contact, distances in queries:
                call = calls.OutgoingCall(contact, calls.DiscoveryPurpose.LOOKUP, distances, lookup)
                if not self._submit(call, now):
                    lookup.add_failure(contact.node_id)
        if lookup.is_done and lookup in self.lookups:
            self.lookups.remove(lookup)

    def _fetch_newer_enr(self, node: NodeId, endpoint: Endpoint, seq: int, now: float) -> None:
        """Request a table node's record when it has a newer version."""
        entry = self.table.get(node)
        if entry and entry.record.seq < seq and entry.contact.endpoint == endpoint and not self.calls.has_call(node):
            self._submit(calls.OutgoingCall(entry.contact, calls.DiscoveryPurpose.FETCH, (0,)), now)

    # --- known nodes --------------------------------------------------------------------------------------------------

    def _add_handshake_enr(self, received: AuthenticMessage, now: float) -> None:
        """Add the sender of a handshake if its record has the address that it uses."""
        record = received.record
        contact = record.contact(self.settings.ip_versions) if record else None
        if record is not None and contact is not None and contact.endpoint == received.endpoint:
            self._add_seen_enr(record, received.endpoint.ip, now)

    def _add_seen_enr(self, record: Enr, sender: IpAddress, now: float) -> None:
        """Add a node that has not yet proved to be at the address in its record."""
        node = record.node_id
        member = self.table.get_member(node)
        if node == self.codec.node_id or (member is not None and member.record.seq >= record.seq):
            return
        contact = record.contact(self.settings.ip_versions)
        if contact is None or not self._is_usable(contact, sender):
            return
        self.table.add_seen_node(record, now)
        if self.peers_wanted and self._is_ours(record) and self._emitted.get(node, (-1, 0.0))[0] < record.seq:
            self._candidates[node] = contact
            if len(self._candidates) > _MAX_CANDIDATES:
                self._candidates.popitem(last=False)
        self._revalidate(now)

    def _mark_verified(self, result: calls.DiscoveryResult, record: Enr | None, now: float) -> None:
        """Note that a node has responded at the address that was called."""
        node, endpoint = result.call.contact.node_id, result.call.contact.endpoint
        entry = self.table.get(node)
        if entry is not None and entry.contact.endpoint == endpoint:
            if not self.table.live:
                self._refresh_due, self._lookup_interval = now, _FIRST_LOOKUP_INTERVAL
            self.table.record_response(node, now, is_check=result.pong is not None)
            record = entry.record
        contact = record.contact(self.settings.ip_versions) if record else None
        if record is not None and contact is not None and contact.endpoint == endpoint:
            self._candidates.pop(node, None)
            self._emit_node(record, endpoint, now)

    def _emit_node(self, record: Enr, endpoint: Endpoint, now: float) -> None:
        seq, at = self._emitted.get(record.node_id, (-1, now))
        if seq >= record.seq and at + REEMIT_SECONDS > now:
            return
        self._emitted[record.node_id] = (record.seq, now)
        self._emitted.move_to_end(record.node_id)
        if len(self._emitted) > _MAX_EMITTED:
            self._emitted.popitem(last=False)
        self._outputs.append(NodeAlive(record))
        tcp = record.tcp(endpoint.ip.version)
        if self._is_ours(record) and tcp is not None:
            self._outputs.append(ChainNodeFound(record, tcp))

    def _add_ip_vote(self, pong: messages.Pong, node: NodeId, endpoint: Endpoint, now: float) -> None:
        if not self._learn_address:
            return
        self.ip_votes.add(node, endpoint, Endpoint(pong.ip, pong.port), now)
        winner = self.ip_votes.winner(now)
        if (
            winner is not None
            and winner.ip.version in self.settings.ip_versions
            and self.local_enr.set_endpoint(winner)
        ):
            self._local_enr_updated()

    def _local_enr_updated(self) -> None:
        """Drop all sessions, as other nodes get our new record by new handshakes."""
        self.codec.sessions.clear()
        self._outputs.append(LocalEnrUpdated(self.local_enr.enr))

    def _is_ours(self, record: Enr) -> bool:
        chain = record.opstack
        return chain is not None and chain.chain_id == self.settings.chain_id and chain.version == 0

    # --- periodic work -----------------------------------------------------------------------------------------------

    def _query_bootnodes(self, now: float) -> None:
        if now < self._bootnodes_due or not self._bootnodes:
            return
        self._bootnode_queries += 1
        self._bootnodes_due = now + backoff(self._bootnode_queries, *_BOOTNODE_INTERVALS)
        if len(self.table.live) >= ENOUGH_LIVE:
            self._bootnode_queries = 0
            return
        for contact in self._bootnodes.values():
            if contact.record is not None:
                self.table.add_seen_node(contact.record, now)
            elif self.table.get(contact.node_id) is None:
                self._submit(calls.OutgoingCall(contact, calls.DiscoveryPurpose.FETCH, (0,)), now)

    def _revalidate(self, now: float) -> None:
        """Ping nodes of the table, then candidates."""
        for _ in range(_MAX_REVALIDATIONS - self.calls.count(calls.DiscoveryPurpose.REVALIDATE)):
            contact = self._next_to_ping(now)
            if contact is None:
                return
            self._submit(calls.OutgoingCall(contact, calls.DiscoveryPurpose.REVALIDATE), now)

    def _next_to_ping(self, now: float) -> Contact | None:
        due = self.table.next_to_revalidate(now)
        if due is not None:
            return due.contact
        while self._candidates:
            node, contact = self._candidates.popitem(last=False)
            if self.table.get_member(node) is None:
                return contact
        return None

    def _start_due_lookup(self, now: float) -> None:
        """Start a lookup that is due: near ourselves to refresh the table, at random while peers are wanted."""
        if now >= self._refresh_due and len(self.table):
            self._refresh_due = now + REFRESH_INTERVAL
            self.start_lookup(self.codec.node_id, now)
        elif self.peers_wanted and now >= self._lookup_due and not self.lookups:
            if self.start_lookup(self._random(32), now) is not None:
                self._lookup_interval = min(1.5 * self._lookup_interval, LOOKUP_INTERVAL)
            self._lookup_due = now + self._lookup_interval

    # --- sending ---------------------------------------------------------------------------------------------

    def _may_reach(self, endpoint: Endpoint) -> bool:
        if endpoint.ip.version not in self.settings.ip_versions or not endpoint.port:
            return False
        return not self.settings.allowed_networks or is_within(endpoint.ip, self.settings.allowed_networks)

    def _is_usable(self, contact: Contact, sender: IpAddress) -> bool:
        return self._may_reach(contact.endpoint) and is_plausible_ip(contact.endpoint.ip, sender)

    def _send(self, sending: calls.OutgoingPacket) -> None:
        if self._may_reach(sending.endpoint):
            self._outputs.append(sending)


class IpVotes:
    """The votes on our external address of the last minutes: each PONG has the address at which its sender sees us.

    Each network has one vote, and only a clear majority of enough recent votes counts [DSC4]."""

    def __init__(self) -> None:
        self._votes: OrderedDict[bytes, tuple[Endpoint, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._votes)

    def add(self, voter: NodeId, voter_at: Endpoint, seen: Endpoint, now: float) -> None:
        """Add the vote of a node at `voter_at` that sees us at `seen`."""
        if not seen.port or not is_plausible_ip(seen.ip, voter_at.ip):
            return
        key = network_prefix(voter_at.ip) or voter
        self._votes.pop(key, None)
        self._votes[key] = (seen, now)
        while len(self._votes) > _MAX_VOTES:
            self._votes.popitem(last=False)

    def winner(self, now: float) -> Endpoint | None:
        """Return the address with more than half of the recent votes, None while there are too few or is none."""
        while self._votes and next(iter(self._votes.values()))[1] <= now - VOTE_SECONDS:
            self._votes.popitem(last=False)
        if len(self._votes) < MIN_VOTES:
            return None
        ((address, count),) = Counter(seen for seen, _ in self._votes.values()).most_common(1)
        return address if 2 * count > len(self._votes) else None
