"""THE PEER CALLS: what each `opp2p_*` method does (node-behaviour 1.8)."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from rollup_node.ipc.bus.bus import Bus, ProcessId
from rollup_node.stages.messages.p2p import PeerRequest, PeerResponse
from rollup_node.stages.p2p.discv5.io.udp_service import DiscoveryServer
from rollup_node.stages.p2p.gating.connection_gater import parse_ip, parse_subnet
from rollup_node.stages.p2p.host.host_api import ConnectionInfo, DialError
from rollup_node.stages.p2p.host.io.host import Host
from rollup_node.stages.p2p.identity.identify import PROTOCOL_VERSION
from rollup_node.stages.p2p.identity.multiaddr import MultiaddrError, parse_multiaddr
from rollup_node.stages.p2p.identity.peer_id import IdentityError, PeerId, parse_peer, peer_text
from rollup_node.stages.p2p.peering.io.peer_manager import API_PROTECTED
from rollup_node.stages.p2p.peering.io.score_service import ScoreKeeper
from rollup_node.stages.p2p.peering.peer_info import (
    CONNECTED,
    NOT_CONNECTED,
    UNKNOWN_DIRECTION,
    PeerDump,
    PeerInfo,
    PeerStats,
    full_addresses,
    node_id_text,
    sorted_ips,
    sorted_nets,
    sorted_peers,
)
from rollup_node.stages.p2p.peerstore.peer_record import PeerDescription, PeerMetadata, PeerScores
from rollup_node.stages.p2p.process.gossip_service import GossipService
from rollup_node.stages.protocol.jsonrpc_codes import INVALID_PARAMS, SERVER_ERROR

CONNECT_SECONDS = 29.0
KEPT_ANSWERS = 128


class CallProblem(Exception):
    """An error to answer with."""

    def __init__(self, text: str, code: int = SERVER_ERROR) -> None:
        super().__init__(text)
        self.code = code


class Directory:
    """What is known of peers, put together from all who know something. `discovery` gives it while it runs."""

    def __init__(
        self,
        host: Host,
        gossip: GossipService,
        keeper: ScoreKeeper,
        discovery: Callable[[], DiscoveryServer | None],
    ) -> None:
        self._host, self._gossip, self._keeper, self._discovery = host, gossip, keeper, discovery

    def own(self) -> PeerInfo:
        """Ourselves."""
        host, discovery = self._host, self._discovery()
        return PeerInfo(
            peerID=peer_text(host.peer_id),
            nodeID=node_id_text(host.peer_id),
            userAgent=host.config.user_agent,
            protocolVersion=PROTOCOL_VERSION,
            ENR="" if discovery is None else discovery.record.text,
            addresses=full_addresses(host.peer_id, host.addresses),
            protocols=host.protocols,
            connectedness=NOT_CONNECTED,
            direction=UNKNOWN_DIRECTION,
            protected=False,
            chainID=host.config.rollup.l2_chain_id,
            latency=0,
            gossipBlocks=True,
            scores=PeerScores(),
        )

    def peer(self, peer: PeerId, info: ConnectionInfo | None) -> PeerInfo:
        """A peer; `info` if it is connected."""
        host = self._host
        said = host.store.description(peer) or PeerDescription()
        metadata = host.store.metadata(peer) or PeerMetadata()
        scores = self._keeper.record(peer) if info is not None else host.store.scores(peer) or PeerScores()
        gossips = any(peer in self._gossip.router.topic_peers(topic) for topic in self._gossip.topics)
        seen_at = () if info is None else (info.address,)
        return PeerInfo(
            peerID=peer_text(peer),
            nodeID=node_id_text(peer),
            userAgent=said.agent,
            protocolVersion=said.version,
            ENR=metadata.enr,
            addresses=full_addresses(peer, (*host.store.addresses(peer), *seen_at)),
            protocols=said.protocols or None,
            connectedness=NOT_CONNECTED if info is None else CONNECTED,
            direction=UNKNOWN_DIRECTION if info is None else info.direction.value,
            protected=host.manager.is_protected(peer),
            chainID=metadata.chain_id,
            latency=0 if info is None or info.latency is None else int(info.latency * 1e9),
            gossipBlocks=gossips,
            scores=scores,
        )

    def all(self, connected_only: bool) -> PeerDump:
        """Every peer, or those connected."""
        gater = self._host.gater
        connected = {info.peer: info for info in self._host.connections()}
        known = () if connected_only else self._host.store.known()
        names = dict.fromkeys([*connected, *(peer for peer in known if peer != self._host.peer_id)])
        return PeerDump(
            totalConnected=len(connected),
            peers={peer_text(peer): self.peer(peer, connected.get(peer)) for peer in names},
            bannedPeers=sorted_peers({*gater.blocked_peers, *gater.peer_bans}),
            bannedIPS=sorted_ips({*gater.blocked_ips, *gater.ip_bans}),
            bannedSubnets=sorted_nets(gater.blocked_subnets),
        )

    def stats(self) -> PeerStats:
        """Counts."""
        host, discovery = self._host, self._discovery()
        on_topic = [len(self._gossip.router.topic_peers(topic)) for topic in self._gossip.topics]
        return PeerStats(
            connected=len(host.peers()),
            table=0 if discovery is None else len(discovery.table),
            blocksTopic=on_topic[0],
            blocksTopicV2=on_topic[1],
            blocksTopicV3=on_topic[2],
            blocksTopicV4=on_topic[3],
            banned=len({*host.gater.blocked_peers, *host.gater.peer_bans}),
            known=len(host.store.known()),
        )

    def table(self) -> list[str]:
        """The records in discovery's table."""
        discovery = self._discovery()
        if discovery is None:
            raise CallProblem("discovery disabled")
        return [record.text for record in discovery.table]


class PeersServer:
    """The server of `p2p.control`; a repeated call gets the first answer again."""

    def __init__(self, bus: Bus, host: Host, directory: Directory, diagnosis: Callable[[], Any]) -> None:
        self._host, self._directory = host, directory
        self._answers: OrderedDict[tuple[ProcessId, int], PeerResponse] = OrderedDict()
        self._running: set[tuple[ProcessId, int]] = set()
        self._methods: dict[str, Callable[[str], Any]] = {
            "self": lambda _: directory.own(),
            "peers": lambda connected_only: directory.all(connected_only == "True"),
            "peerStats": lambda _: directory.stats(),
            "discoveryTable": lambda _: directory.table(),
            "diagnosis": lambda _: diagnosis(),
            "blockPeer": lambda text: self._gate(host.gater.blocked_peers.add, _peer(text)),
            "unblockPeer": lambda text: self._let_in(_peer(text)),
            "listBlockedPeers": lambda _: sorted_peers(host.gater.blocked_peers),
            "blockAddr": lambda text: self._gate(host.gater.blocked_ips.add, parse_ip(text)),
            "unblockAddr": lambda text: self._gate(host.gater.blocked_ips.discard, parse_ip(text)),
            "listBlockedAddrs": lambda _: sorted_ips(host.gater.blocked_ips),
            "blockSubnet": lambda text: self._gate(host.gater.blocked_subnets.add, parse_subnet(text)),
            "unblockSubnet": lambda text: self._gate(host.gater.blocked_subnets.discard, parse_subnet(text)),
            "listBlockedSubnets": lambda _: sorted_nets(host.gater.blocked_subnets),
            "protectPeer": lambda text: host.manager.protect(_peer(text), API_PROTECTED),
            "unprotectPeer": lambda text: host.manager.unprotect(_peer(text), API_PROTECTED),
            "connectPeer": self._connect,
            "disconnectPeer": self._disconnect,
        }
        self._server = bus.serve("p2p.control", self._take)

    def _take(self, peer: ProcessId, call: PeerRequest) -> None:
        key = (peer, call.id)
        known = self._answers.get(key)
        if known is not None:
            self._server.send(peer, known)
        elif key not in self._running:
            self._running.add(key)
            self._begin(key, call)

    def _begin(self, key: tuple[ProcessId, int], call: PeerRequest) -> None:
        """Answers at once, or when what takes its time is done."""
        try:
            method = self._methods.get(call.method)
            if method is None:
                raise CallProblem(f"there is no call {call.method!r}", INVALID_PARAMS)
            found = method(call.argument)
        except CallProblem as problem:
            self._answer(key, PeerResponse(call.id, b"", str(problem), problem.code))
        else:
            if asyncio.iscoroutine(found):
                self._host.spawn(self._finish(key, call, found))
            else:
                self._answer(key, PeerResponse(call.id, msgspec.json.encode(found), None, 0))

    async def _finish(self, key: tuple[ProcessId, int], call: PeerRequest, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
            self._answer(key, PeerResponse(call.id, b"null", None, 0))
        except CallProblem as problem:
            self._answer(key, PeerResponse(call.id, b"", str(problem), problem.code))

    def _answer(self, key: tuple[ProcessId, int], answer: PeerResponse) -> None:
        self._running.discard(key)
        self._answers[key] = answer
        if len(self._answers) > KEPT_ANSWERS:
            self._answers.popitem(last=False)
        self._server.send(key[0], answer)

    def _gate(self, change: Callable[[Any], None], subject: object) -> None:
        """Changes whom we keep out; live connections stay (node-behaviour 1.8)."""
        change(subject)
        self._host.gate_changed()

    def _let_in(self, peer: PeerId) -> None:
        """Unblocks a peer, and lifts its ban as op-node does."""
        self._host.meter.count("p2p_peer_unbans", int(self._host.gater.let_in(peer)))
        self._host.gate_changed()

    def _connect(self, text: str) -> Coroutine[Any, Any, None]:
        try:
            address = parse_multiaddr(text)
        except MultiaddrError as error:
            raise CallProblem(f"bad peer address: {error}") from None
        if address.peer is None or address.tcp is None:
            raise CallProblem("bad peer address: address, TCP port and peer id are needed, as /ip4/../tcp/../p2p/..")

        async def connect(peer: PeerId) -> None:
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    await self._host.connect(peer, [address.without_peer])
            except DialError as error:
                raise CallProblem(str(error)) from None
            except TimeoutError:
                raise CallProblem(f"no connection within {CONNECT_SECONDS:g} s") from None

        return connect(address.peer)

    def _disconnect(self, text: str) -> None:
        """Closes the connection, forgets the peer, and lets it in again."""
        peer = _peer(text)
        self._host.disconnect(peer, "asked for by an operator")
        self._host.store.remove(peer)
        self._let_in(peer)


def _peer(text: str) -> PeerId:
    try:
        return parse_peer(text)
    except IdentityError as error:
        raise CallProblem(f"invalid argument 0: failed to parse peer ID: {error}", INVALID_PARAMS) from None
