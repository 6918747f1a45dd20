"""The discovery node: datagrams and ticks in; datagrams, found nodes of our chain, and nodes worth keeping out. It
answers others, keeps its table alive, walks the network while peers are wanted, and learns its own address."""

from collections import Counter, OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from rollup_node.stages.p2p.addresses.ip import IpAddress, Subnet, host_prefix, is_plausible_ip, is_within
from rollup_node.stages.p2p.discv5 import messages
from rollup_node.stages.p2p.discv5.calls import ActiveCalls, CallPurpose, CallResult, OutgoingCall, OutgoingPacket
from rollup_node.stages.p2p.discv5.contact import Contact, Endpoint, NodeId
from rollup_node.stages.p2p.discv5.enr import Enr
from rollup_node.stages.p2p.discv5.ip_votes import IpVotes
from rollup_node.stages.p2p.discv5.limits import KeyedRateLimiter
from rollup_node.stages.p2p.discv5.local_enr import AdvertisedEndpoint, LocalEnr
from rollup_node.stages.p2p.discv5.lookup import WIDTH, Lookup
from rollup_node.stages.p2p.discv5.packet_codec import AuthenticMessage, PacketCodec, PacketDrop
from rollup_node.stages.p2p.discv5.packets import MessagePacket, WhoAreYou
from rollup_node.stages.p2p.discv5.sessions import RandomBytes
from rollup_node.stages.p2p.discv5.table import RoutingTable

WALK_SECONDS = 5.0
"""Between two walks while peers are wanted; the first few follow each other faster."""
REFRESH_SECONDS = 600.0
"""Between two walks that only keep the table fresh."""
TELL_AGAIN_SECONDS = 600.0
ENOUGH_LIVE = 8
"""With fewer live nodes than this in the table the bootnodes are asked, ever less often."""
MAX_LOOKUPS = 4
_FIRST_WALK_SECONDS = 0.5
_BOOT_SECONDS = (2.0, 60.0)
_PACKETS_PER_SECOND = (200.0, 500.0)
_MAX_CHECKS = 8
_MAX_CANDIDATES = 128
_MAX_EMITTED = 2048


class ChainNodeFound(NamedTuple):
    """A node of our chain that has proved to be where its record says; `tcp` is where libp2p reaches it."""

    record: Enr
    tcp: Endpoint


class NodeAlive(NamedTuple):
    """A node of any chain has answered at the address in its record."""

    record: Enr


class NodeGone(NamedTuple):
    """A node does not answer any more."""

    node: NodeId


class LocalEnrUpdated(NamedTuple):
    """Our own record has a new version."""

    record: Enr


Discv5Output = OutgoingPacket | ChainNodeFound | NodeAlive | NodeGone | LocalEnrUpdated


@dataclass(frozen=True)
class Discv5Settings:
    """Nothing is sent outside of the networks `restricted_to` (empty: any). `versions`: the IP versions of our socket;
    `learns_address`: whether the majority of PONGs may move our record."""

    chain_id: int
    restricted_to: tuple[Subnet, ...] = ()
    versions: tuple[int, ...] = (4,)
    learns_address: bool = True


class TableStats(NamedTuple):
    """The nodes in the table: all, those alive, and of these by what their records say of their chain."""

    nodes: int
    live: int
    ours: int
    other_chain: int
    no_chain: int


class Discv5Node:
    """One node. `now` is monotonic seconds everywhere. `drops` counts the datagrams that went no further; `wanted`
    says whether more peers are sought."""

    def __init__(self, settings: Discv5Settings, secret: bytes, local: LocalEnr, random: RandomBytes) -> None:
        self.settings = settings
        self.local = local
        self.channel = PacketCodec(secret, random)
        self.calls = ActiveCalls(self.channel, random)
        self.table = RoutingTable(self.channel.node_id, settings.versions)
        self.votes = IpVotes()
        self.drops: Counter[PacketDrop] = Counter()
        self.wanted = True
        self.lookups: list[Lookup] = []
        self._random = random
        self._learns_address = settings.learns_address
        self._limit = KeyedRateLimiter(*_PACKETS_PER_SECOND)
        self._bootnodes: dict[NodeId, Contact] = {}
        self._candidates: OrderedDict[NodeId, Contact] = OrderedDict()
        self._told: OrderedDict[NodeId, tuple[int, float]] = OrderedDict()
        self._outputs: deque[Discv5Output] = deque()
        self._next_boot, self._boot_pause = 0.0, _BOOT_SECONDS[0]
        self._next_walk = self._next_refresh = 0.0
        self._walk_pause = _FIRST_WALK_SECONDS

    # --- what comes in ---------------------------------------------------------------------------------------------

    def receive(self, datagram: bytes, sender: Endpoint, now: float) -> None:
        """Takes a datagram; nothing that it holds can fail."""
        dropped = self._receive(datagram, sender, now)
        if dropped is not None:
            self.drops[dropped] += 1

    def tick(self, now: float) -> None:
        """Does what is due; to be called several times a second."""
        for outcome in self.calls.expire(self.local.record, now):
            self._conclude(outcome, now)
        self._boot(now)
        self._check(now)
        self._walk(now)

    def take(self) -> list[Discv5Output]:
        """What has come of it, in order; each output is given once."""
        for sending in self.calls.outbox:
            self._send(sending)
        self.calls.outbox.clear()
        outputs = list(self._outputs)
        self._outputs.clear()
        return outputs

    def add_bootnodes(self, contacts: Iterable[Contact]) -> None:
        """Nodes to begin with, asked whenever few others are known."""
        others = [contact for contact in contacts if contact.node_id != self.channel.node_id]
        self._bootnodes.update({contact.node_id: contact for contact in others if self._may_reach(contact.endpoint)})
        self._next_boot, self._boot_pause = 0.0, _BOOT_SECONDS[0]

    def restore(self, records: Iterable[Enr], now: float) -> None:
        """Nodes known from before; they are asked whether they are still there."""
        for record in records:
            contact = record.contact(self.settings.versions)
            if contact is not None and self._may_reach(contact.endpoint):
                self.table.offer(record, now)

    def set_address(self, advertised: AdvertisedEndpoint) -> None:
        """Our address is known (from a router), and not to be learned any more."""
        self._learns_address = False
        if self.local.advertise(advertised):
            self._moved()

    def start_lookup(self, target: NodeId, now: float) -> Lookup | None:
        """Begins a walk to a target; None if there are too many, or nobody to begin with."""
        seeds = self.table.nearest(target, WIDTH)
        if not seeds or len(self.lookups) >= MAX_LOOKUPS:
            return None
        lookup = Lookup(target, self.channel.node_id)
        lookup.add(seeds)
        self.lookups.append(lookup)
        self._advance(lookup, now)
        return lookup

    @property
    def is_busy(self) -> bool:
        """Whether an answer is waited for, so that ticks matter."""
        return bool(len(self.calls) or self._candidates)

    def census(self) -> TableStats:
        """Who is in the table."""
        chains = [entry.record.opstack for entry in self.table if entry.is_live]
        ours = sum(self._is_ours(entry.record) for entry in self.table if entry.is_live)
        absent = chains.count(None)
        return TableStats(len(self.table), len(chains), ours, len(chains) - ours - absent, absent)

    # --- answering -------------------------------------------------------------------------------------------------

    def _receive(self, datagram: bytes, sender: Endpoint, now: float) -> PacketDrop | None:
        if not self._may_reach(sender):
            return PacketDrop.RESTRICTED
        if not self._limit.take(host_prefix(sender.ip), now):
            return PacketDrop.TOO_MANY
        received = self.channel.receive(datagram, sender, now)
        if isinstance(received, PacketDrop):
            return received
        if isinstance(received, WhoAreYou):
            is_ours = self.calls.challenged(received, sender, self.local.record, now)
            return None if is_ours else PacketDrop.NOT_ASKED_FOR
        if isinstance(received, MessagePacket):
            return self._challenge(received, sender, now)
        return self._deliver(received, now)

    def _challenge(self, packet: MessagePacket, sender: Endpoint, now: float) -> PacketDrop | None:
        entry = self.table.get(packet.source)
        challenge = self.channel.challenge(packet, sender, entry.contact if entry else None, now)
        if isinstance(challenge, PacketDrop):
            return challenge
        self._send(OutgoingPacket(challenge, sender))
        return None

    def _deliver(self, delivered: AuthenticMessage, now: float) -> PacketDrop | None:
        self._meet(delivered, now)
        message = delivered.message
        if isinstance(message, messages.Ping):
            sender = delivered.endpoint
            pong = messages.Pong(message.request_id, self.local.record.seq, sender.ip, sender.port)
            self._reply(delivered, [pong])
            self._fetch_newer(delivered.node, delivered.endpoint, message.record_seq, now)
        elif isinstance(message, messages.FindNode):
            records = self._neighbours(message.distances, delivered)
            self._reply(delivered, messages.nodes_messages(message.request_id, records))
        elif isinstance(message, messages.TalkRequest):
            self._reply(delivered, [messages.TalkResponse(message.request_id, b"")])
        else:
            outcome = self.calls.answered(delivered, self.local.record, now)
            if outcome is False:
                return PacketDrop.NOT_ASKED_FOR
            if isinstance(outcome, CallResult):
                self._conclude(outcome, now)
        return None

    def _neighbours(self, distances: tuple[int, ...], asker: AuthenticMessage) -> list[bytes]:
        """The records for an answer; nodes of local networks are told on these only."""
        found = [self.local.record.raw] if 0 in distances else []
        for record in self.table.at_distances(distance for distance in distances if distance):
            contact = record.contact(self.settings.versions)
            if record.node_id != asker.node and contact and is_plausible_ip(contact.endpoint.ip, asker.endpoint.ip):
                found.append(record.raw)
        return found

    def _reply(self, asked: AuthenticMessage, answers: Iterable[messages.Discv5Message]) -> None:
        for answer in answers:
            sealed = self.channel.seal(asked.node, asked.endpoint, messages.encode(answer))
            if sealed is not None:
                self._send(OutgoingPacket(sealed.datagram, asked.endpoint))

    # --- asking ----------------------------------------------------------------------------------------------------

    def _submit(self, call: OutgoingCall, now: float) -> bool:
        return self._may_reach(call.contact.endpoint) and self.calls.submit(call, self.local.record.seq, now)

    def _conclude(self, outcome: CallResult, now: float) -> None:
        """Takes what came of a call."""
        call = outcome.call
        node, endpoint = call.contact.node_id, call.contact.endpoint
        if outcome.is_answered:
            for record in call.records.values():
                self._hear(record, endpoint.ip, now)
            if call.contact.record is not None:
                self._hear(call.contact.record, endpoint.ip, now)
            self._prove(outcome, call.records.get(node) or call.contact.record, now)
            if outcome.pong is not None:
                self._vote(outcome.pong, node, endpoint, now)
                self._fetch_newer(node, endpoint, outcome.pong.record_seq, now)
        elif self.table.failed(node, now) is not None:
            self._told.pop(node, None)
            self._outputs.append(NodeGone(node))
        if call.lookup is not None:
            self._continue(call.lookup, outcome, now)

    def _continue(self, lookup: Lookup, outcome: CallResult, now: float) -> None:
        node = outcome.call.contact.node_id
        if outcome.is_answered:
            contacts = (record.contact(self.settings.versions) for record in outcome.call.records.values())
            seen = outcome.call.contact.endpoint.ip
            lookup.answer(node, [contact for contact in contacts if contact and self._is_usable(contact, seen)])
        else:
            lookup.fail(node)
        self._advance(lookup, now)

    def _advance(self, lookup: Lookup, now: float) -> None:
        while queries := lookup.next_queries():
            for query in queries:
                call = OutgoingCall(query.contact, CallPurpose.LOOKUP, query.distances, lookup)
                if not self._submit(call, now):
                    lookup.fail(query.contact.node_id)
        if lookup.is_done and lookup in self.lookups:
            self.lookups.remove(lookup)

    def _fetch_newer(self, node: NodeId, endpoint: Endpoint, seq: int, now: float) -> None:
        """Asks a node in the table for its record if there is a newer one."""
        entry = self.table.get(node)
        if entry and entry.record.seq < seq and entry.contact.endpoint == endpoint and not self.calls.is_busy(node):
            self._submit(OutgoingCall(entry.contact, CallPurpose.FETCH, (0,)), now)

    # --- knowing ---------------------------------------------------------------------------------------------------

    def _meet(self, delivered: AuthenticMessage, now: float) -> None:
        """Hears of a node by its own handshake, if its record names the address that it uses."""
        record = delivered.record
        contact = record.contact(self.settings.versions) if record else None
        if record is not None and contact is not None and contact.endpoint == delivered.endpoint:
            self._hear(record, delivered.endpoint.ip, now)

    def _hear(self, record: Enr, teller: IpAddress, now: float) -> None:
        """Hears of a node that is not yet proved to be where its record says."""
        node = record.node_id
        member = self.table.member(node)
        if node == self.channel.node_id or (member is not None and member.record.seq >= record.seq):
            return
        contact = record.contact(self.settings.versions)
        if contact is None or not self._is_usable(contact, teller):
            return
        self.table.offer(record, now)
        if self.wanted and self._is_ours(record) and self._told.get(node, (-1, 0.0))[0] < record.seq:
            self._candidates[node] = contact
            if len(self._candidates) > _MAX_CANDIDATES:
                self._candidates.popitem(last=False)
        self._check(now)

    def _prove(self, outcome: CallResult, record: Enr | None, now: float) -> None:
        """A node has answered at the address that was called."""
        node, endpoint = outcome.call.contact.node_id, outcome.call.contact.endpoint
        entry = self.table.get(node)
        if entry is not None and entry.contact.endpoint == endpoint:
            if not self.table.has_live:
                self._next_refresh, self._walk_pause = now, _FIRST_WALK_SECONDS
            self.table.answered(node, now, is_check=outcome.pong is not None)
            record = entry.record
        contact = record.contact(self.settings.versions) if record else None
        if record is not None and contact is not None and contact.endpoint == endpoint:
            self._candidates.pop(node, None)
            self._tell(record, endpoint, now)

    def _tell(self, record: Enr, endpoint: Endpoint, now: float) -> None:
        seq, at = self._told.get(record.node_id, (-1, now))
        if seq >= record.seq and at + TELL_AGAIN_SECONDS > now:
            return
        self._told[record.node_id] = (record.seq, now)
        self._told.move_to_end(record.node_id)
        if len(self._told) > _MAX_EMITTED:
            self._told.popitem(last=False)
        self._outputs.append(NodeAlive(record))
        tcp = record.tcp(endpoint.ip.version)
        if self._is_ours(record) and tcp is not None:
            self._outputs.append(ChainNodeFound(record, tcp))

    def _vote(self, pong: messages.Pong, node: NodeId, endpoint: Endpoint, now: float) -> None:
        if not self._learns_address:
            return
        self.votes.add(node, endpoint, Endpoint(pong.ip, pong.port), now)
        winner = self.votes.winner(now)
        if winner is not None and winner.ip.version in self.settings.versions and self.local.move(winner):
            self._moved()

    def _moved(self) -> None:
        """Tells of our new record; others get it by new handshakes, those that do not have us in their table too."""
        self.channel.sessions.clear()
        self._outputs.append(LocalEnrUpdated(self.local.record))

    def _is_ours(self, record: Enr) -> bool:
        chain = record.opstack
        return chain is not None and chain.chain_id == self.settings.chain_id and chain.version == 0

    # --- what is due -----------------------------------------------------------------------------------------------

    def _boot(self, now: float) -> None:
        if now < self._next_boot or not self._bootnodes:
            return
        self._next_boot = now + self._boot_pause
        if len(self.table.live) >= ENOUGH_LIVE:
            self._boot_pause = _BOOT_SECONDS[0]
            return
        self._boot_pause = min(2 * self._boot_pause, _BOOT_SECONDS[1])
        for contact in self._bootnodes.values():
            if contact.record is not None:
                self.table.offer(contact.record, now)
            elif self.table.get(contact.node_id) is None:
                self._submit(OutgoingCall(contact, CallPurpose.FETCH, (0,)), now)

    def _check(self, now: float) -> None:
        """Asks nodes of the table, then candidates, whether they are alive."""
        for _ in range(_MAX_CHECKS - self.calls.count(CallPurpose.CHECK)):
            contact = self._next_check(now)
            if contact is None:
                return
            self._submit(OutgoingCall(contact, CallPurpose.CHECK), now)

    def _next_check(self, now: float) -> Contact | None:
        due = self.table.due(now)
        if due is not None:
            return due.contact
        while self._candidates:
            node, contact = self._candidates.popitem(last=False)
            if self.table.member(node) is None:
                return contact
        return None

    def _walk(self, now: float) -> None:
        """Begins a walk: near ourselves to keep the table fresh, to anywhere while peers are wanted."""
        if now >= self._next_refresh and len(self.table):
            self._next_refresh = now + REFRESH_SECONDS
            self.start_lookup(self.channel.node_id, now)
        elif self.wanted and now >= self._next_walk and not self.lookups:
            if self.start_lookup(self._random(32), now) is not None:
                self._walk_pause = min(1.5 * self._walk_pause, WALK_SECONDS)
            self._next_walk = now + self._walk_pause

    # --- what goes out ---------------------------------------------------------------------------------------------

    def _may_reach(self, endpoint: Endpoint) -> bool:
        if endpoint.ip.version not in self.settings.versions or not endpoint.port:
            return False
        return not self.settings.restricted_to or is_within(endpoint.ip, self.settings.restricted_to)

    def _is_usable(self, contact: Contact, teller: IpAddress) -> bool:
        return self._may_reach(contact.endpoint) and is_plausible_ip(contact.endpoint.ip, teller)

    def _send(self, sending: OutgoingPacket) -> None:
        if self._may_reach(sending.endpoint):
            self._outputs.append(sending)
