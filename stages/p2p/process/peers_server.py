"""The server of `p2p.control`: what each `opp2p_*` method does, the diagnosis among them [RPC67 to RPC84]."""

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

import msgspec

from rollup_node.ipc.bus.bus import Bus, ProcessId
from rollup_node.stages.messages.p2p import PeerRequest, PeerResponse, PublishSignedRequest
from rollup_node.stages.p2p.addresses.ip import parse_ip, parse_subnet
from rollup_node.stages.p2p.addresses.multiaddr import MultiaddrError, parse_multiaddr
from rollup_node.stages.p2p.addresses.peer_id import IdentityError, PeerId, parse_peer_id, peer_id_text
from rollup_node.stages.p2p.gating.peer_drops import PeerDropReason
from rollup_node.stages.p2p.host.identify import PROTOCOL_VERSION
from rollup_node.stages.p2p.host.io.host import Host
from rollup_node.stages.p2p.host.io.host_api import ConnectedPeer, DialError, Direction, HostEvent, PeerConnected
from rollup_node.stages.p2p.peering import peer_info
from rollup_node.stages.p2p.peering.io.discovery_service import DiscoveryService
from rollup_node.stages.p2p.peering.io.peer_manager import API_PROTECTED, ScoreService
from rollup_node.stages.p2p.process.gossip_service import GossipService
from rollup_node.stages.p2p.storage.peer_record import IdentifyRecord, PeerMetadata, PeerScores
from rollup_node.stages.protocol.errors import INVALID_PARAMS, SERVER_ERROR
from rollup_node.stages.protocol.payloads import ExecutionPayload

MAX_SHOWN = 32


CONNECT_SECONDS = 29.0
MAX_RESPONSES = 128


class PeerApiError(Exception):
    """An error response with its JSON-RPC code."""

    def __init__(self, text: str, code: int = SERVER_ERROR) -> None:
        super().__init__(text)
        self.code = code


class PeerDirectory:
    """What is known of peers, and the diagnosis."""

    def __init__(
        self, host: Host, gossip: GossipService, score_service: ScoreService, discovery: DiscoveryService
    ) -> None:
        self._host, self._gossip, self._score_service, self._discovery = host, gossip, score_service, discovery
        self._inbound_ever = 0
        host.subscribe(self._on_host_event)

    def own(self) -> peer_info.PeerInfo:
        """Information about ourselves."""
        host, discv5 = self._host, self._discovery.discv5
        return peer_info.PeerInfo(
            peerID=peer_id_text(host.peer_id),
            nodeID=peer_info.node_id_text(host.peer_id),
            userAgent=host.config.user_agent,
            protocolVersion=PROTOCOL_VERSION,
            ENR="" if discv5 is None else discv5.enr.text,
            addresses=peer_info.full_addresses(host.peer_id, host.addresses),
            protocols=host.protocols,
            chainID=host.config.rollup.l2_chain_id,
        )

    def peer(self, peer: PeerId, info: ConnectedPeer | None) -> peer_info.PeerInfo:
        """Information about a peer; `info` if it is connected."""
        host = self._host
        identify = host.peerstore.record(peer, IdentifyRecord) or IdentifyRecord()
        metadata = host.peerstore.record(peer, PeerMetadata) or PeerMetadata()
        scores = (
            self._score_service.scores(peer)
            if info is not None
            else host.peerstore.record(peer, PeerScores) or PeerScores()
        )
        gossips_blocks = any(peer in self._gossip.router.peers.topic_peers(topic) for topic in self._gossip.topics)
        connected_at = () if info is None else (info.address,)
        return peer_info.PeerInfo(
            peerID=peer_id_text(peer),
            nodeID=peer_info.node_id_text(peer),
            userAgent=identify.agent,
            protocolVersion=identify.version,
            ENR=metadata.enr,
            addresses=peer_info.full_addresses(peer, (*host.peerstore.addresses(peer), *connected_at)),
            protocols=identify.protocols or None,
            connectedness=int(info is not None),
            direction=(Direction.UNKNOWN if info is None else info.oldest.direction).value,
            protected=host.connection_manager.is_protected(peer),
            chainID=metadata.chain_id,
            latency=0 if info is None or info.latency is None else int(info.latency * 1e9),
            gossipBlocks=gossips_blocks,
            scores=scores,
        )

    def all(self, connected_only: bool) -> peer_info.PeerDump:
        """All known peers, or those connected."""
        gater = self._host.connection_gater
        connected = {info.peer: info for info in self._host.connections()}
        known = () if connected_only else self._host.peerstore.peers()
        names = dict.fromkeys([*connected, *(peer for peer in known if peer != self._host.peer_id)])
        return peer_info.PeerDump(
            totalConnected=len(connected),
            peers={peer_id_text(peer): self.peer(peer, connected.get(peer)) for peer in names},
            bannedPeers=peer_info.sorted_peers({*gater.blocked_peers, *gater.peer_bans}),
            bannedIPS=peer_info.sorted_ips(gater.blocked_ips),
            bannedSubnets=peer_info.sorted_nets(gater.blocked_subnets),
        )

    def stats(self) -> peer_info.PeerStats:
        """Numbers of peers."""
        host, discv5 = self._host, self._discovery.discv5
        on_topic = [len(self._gossip.router.peers.topic_peers(topic)) for topic in self._gossip.topics]
        return peer_info.PeerStats(
            connected=len(host.peers()),
            table=0 if discv5 is None else len(discv5.table),
            blocksTopic=on_topic[0],
            blocksTopicV2=on_topic[1],
            blocksTopicV3=on_topic[2],
            blocksTopicV4=on_topic[3],
            banned=len({*host.connection_gater.blocked_peers, *host.connection_gater.peer_bans}),
            known=len(host.peerstore.peers()),
        )

    def table(self) -> list[str]:
        """Return the records in discovery's table. Raises PeerApiError when discovery is off."""
        discv5 = self._discovery.discv5
        if discv5 is None:
            raise PeerApiError("discovery disabled")
        return [record.text for record in discv5.table]

    def diagnose(
        self,
        problems: tuple[str, ...],
        static: Iterable[PeerId],
        signers: tuple[bytes | None, bytes | None],
        published: int,
    ) -> peer_info.Diagnosis:
        """Return the present state; `signers` are the unsafe block signers on L1 and of our key."""
        host, now = self._host, time.time()
        gater = host.connection_gater
        connected = host.connections()
        observed = Counter(
            str(info.identify.observed_address)
            for info in connected
            if info.identify is not None and info.identify.observed_address is not None
        )
        return peer_info.Diagnosis(
            peer=peer_id_text(host.peer_id),
            chain_id=host.config.rollup.l2_chain_id,
            listens=tuple(map(str, host.addresses)),
            is_listening=host.port != 0,
            low=host.config.peers_lo,
            high=host.config.peers_hi,
            inbound=sum(info.oldest.direction is Direction.INBOUND for info in connected),
            outbound=sum(info.oldest.direction is Direction.OUTBOUND for info in connected),
            inbound_ever=self._inbound_ever,
            observed=dict(observed.most_common(MAX_SHOWN)),
            known=len(host.peerstore.peers()),
            dialable=len(host.peerstore.peers_with_addresses()),
            static_missing=tuple(peer_id_text(peer) for peer in static if host.connection(peer) is None),
            dial_problems={
                peer_id_text(peer): text for peer, text in list(host.dialer.last_errors.items())[-MAX_SHOWN:]
            },
            bans={peer_id_text(peer): round(until - now, 1) for peer, until in gater.peer_bans.items()},
            blocked=len(gater.blocked_peers) + len(gater.blocked_ips) + len(gater.blocked_subnets),
            departed=tuple(
                peer_info.ClosedConnectionInfo(peer_id_text(closed.peer), closed.reason, round(closed.seconds, 1))
                for closed in list(host.closed_connections)[-MAX_SHOWN:]
            ),
            discovery=self._diagnose_discovery(),
            gossip=self._diagnose_gossip(signers, published),
            problems=problems,
        )

    def _on_host_event(self, event: HostEvent) -> None:
        if isinstance(event, PeerConnected) and event.direction is Direction.INBOUND:
            target = event.address.tcp
            self._inbound_ever += target is not None and not parse_ip(target.host).is_loopback

    def _diagnose_discovery(self) -> peer_info.DiscoveryDiagnosis | None:
        server = self._discovery.discv5
        if server is None:
            return None
        advertised = server.node.local_enr.advertised
        return peer_info.DiscoveryDiagnosis(
            record=server.enr.text,
            endpoint=str(server.endpoint),
            ip=None if advertised.ip is None else str(advertised.ip),
            tcp=advertised.tcp,
            udp=advertised.udp,
            nodes=server.node.table_stats()._asdict(),
            drops={drop.value: count for drop, count in server.node.drops.items()},
        )

    def _diagnose_gossip(self, signers: tuple[bytes | None, bytes | None], published: int) -> peer_info.GossipDiagnosis:
        gossip = self._gossip
        signer, own = [None if address is None else f"0x{address.hex()}" for address in signers]
        ago = None if gossip.accepted_at is None else round(time.monotonic() - gossip.accepted_at, 1)
        return peer_info.GossipDiagnosis(
            topic=gossip.topic(time.time()),
            topics={topic: len(gossip.router.peers.topic_peers(topic)) for topic in gossip.topics},
            meshes={topic: len(gossip.router.meshes.members.get(topic, ())) for topic in gossip.topics},
            low=gossip.router.params.d_lo,
            accepted=gossip.accepted,
            accepted_ago=ago,
            refused=dict(gossip.failures),
            published=published,
            signer=signer,
            own_signer=own,
        )


class PeersServer:
    """The server of `p2p.control`; a repeated request gets the first response again."""

    def __init__(
        self,
        bus: Bus,
        host: Host,
        directory: PeerDirectory,
        diagnosis: Callable[[], Any],
        publish_signed: Callable[[ExecutionPayload, bytes], str | None],
    ) -> None:
        self._host, self._directory, self._publish_signed = host, directory, publish_signed
        self._responses: OrderedDict[tuple[ProcessId, int], PeerResponse] = OrderedDict()
        self._running: set[tuple[ProcessId, int]] = set()
        gater, manager = host.connection_gater, host.connection_manager
        self._methods: dict[str, Callable[[str], Any]] = {
            "self": lambda _: directory.own(),
            "peers": lambda connected_only: directory.all(connected_only == "True"),
            "peerStats": lambda _: directory.stats(),
            "discoveryTable": lambda _: directory.table(),
            "diagnosis": lambda _: diagnosis(),
            "blockPeer": lambda text: self._change_gater(gater.blocked_peers.add, _peer(text)),
            "unblockPeer": lambda text: self._unblock_peer(_peer(text)),
            "listBlockedPeers": lambda _: peer_info.sorted_peers(gater.blocked_peers),
            "blockAddr": lambda text: self._change_gater(gater.blocked_ips.add, parse_ip(text)),
            "unblockAddr": lambda text: self._change_gater(gater.blocked_ips.discard, parse_ip(text)),
            "listBlockedAddrs": lambda _: peer_info.sorted_ips(gater.blocked_ips),
            "blockSubnet": lambda text: self._change_gater(gater.blocked_subnets.add, parse_subnet(text)),
            "unblockSubnet": lambda text: self._change_gater(gater.blocked_subnets.discard, parse_subnet(text)),
            "listBlockedSubnets": lambda _: peer_info.sorted_nets(gater.blocked_subnets),
            "protectPeer": lambda text: manager.protect(_peer(text), API_PROTECTED),
            "unprotectPeer": lambda text: manager.unprotect(_peer(text), API_PROTECTED),
            "connectPeer": self._connect,
            "disconnectPeer": self._disconnect,
        }
        self._server = bus.serve("p2p.control", self._on_message)

    def _on_message(self, peer: ProcessId, call: PeerRequest | PublishSignedRequest) -> None:
        key = (peer, call.id)
        known = self._responses.get(key)
        if known is not None:
            self._server.send(peer, known)
        elif isinstance(call, PublishSignedRequest):
            error = self._publish_signed(call.payload, call.signature)
            self._respond(key, PeerResponse(call.id, b"null", error, SERVER_ERROR if error else 0))
        elif key not in self._running:
            self._running.add(key)
            self._call(key, call)

    def _call(self, key: tuple[ProcessId, int], call: PeerRequest) -> None:
        """Respond at once, or when the method's work is done."""
        try:
            method = self._methods.get(call.method)
            if method is None:
                raise PeerApiError(f"unknown method {call.method!r}", INVALID_PARAMS)
            result = method(call.argument)
        except PeerApiError as error:
            self._respond(key, PeerResponse(call.id, b"", str(error), error.code))
        else:
            if asyncio.iscoroutine(result):
                self._host.spawn(self._finish_call(key, call, result))
            else:
                self._respond(key, PeerResponse(call.id, msgspec.json.encode(result), None, 0))

    async def _finish_call(
        self, key: tuple[ProcessId, int], call: PeerRequest, work: Coroutine[Any, Any, None]
    ) -> None:
        try:
            await work
            self._respond(key, PeerResponse(call.id, b"null", None, 0))
        except PeerApiError as error:
            self._respond(key, PeerResponse(call.id, b"", str(error), error.code))

    def _respond(self, key: tuple[ProcessId, int], response: PeerResponse) -> None:
        self._running.discard(key)
        self._responses[key] = response
        if len(self._responses) > MAX_RESPONSES:
            self._responses.popitem(last=False)
        self._server.send(key[0], response)

    def _change_gater(self, change: Callable[[Any], None], subject: object) -> None:
        """Change the connection gater; live connections stay [RPC81]."""
        change(subject)
        self._host.save_gater()

    def _unblock_peer(self, peer: PeerId) -> None:
        """Unblock a peer and, as op-node does, lifts its ban."""
        self._host.meter.count("p2p_peer_unbans", int(self._host.connection_gater.unblock_peer(peer)))
        self._host.save_gater()

    def _connect(self, text: str) -> Coroutine[Any, Any, None]:
        try:
            address = parse_multiaddr(text)
        except MultiaddrError as error:
            raise PeerApiError(f"bad peer address: {error}") from None
        if address.peer_id is None or address.tcp is None:
            raise PeerApiError("bad peer address: address, TCP port and peer id are needed, as /ip4/../tcp/../p2p/..")

        async def connect(peer: PeerId) -> None:
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    await self._host.connect(peer, [address.without_peer_id])
            except DialError as error:
                raise PeerApiError(str(error)) from None
            except TimeoutError:
                raise PeerApiError(f"no connection within {CONNECT_SECONDS:g} s") from None

        return connect(address.peer_id)

    def _disconnect(self, text: str) -> None:
        """Disconnect a peer, remove it from the peerstore, and unblock it [RPC82]."""
        peer = _peer(text)
        self._host.disconnect(peer, PeerDropReason.BY_OPERATOR)
        self._host.peerstore.remove(peer)
        self._unblock_peer(peer)


def _peer(text: str) -> PeerId:
    try:
        return parse_peer_id(text)
    except IdentityError as error:
        raise PeerApiError(f"invalid argument 0: failed to parse peer ID: {error}", INVALID_PARAMS) from None
