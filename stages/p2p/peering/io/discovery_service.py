"""Discovery over a UDP socket for the host, and the ports that a gateway maps (`p2p.nat`) [DSC1, DSC2, DSC4, DSC7]."""

import asyncio
import ipaddress
import socket
import time
from collections import Counter
from collections.abc import Callable
from secrets import token_bytes
from typing import Self

from rollup_node.stages.io.log.logger import Logger
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.p2p.addresses.ip import IpAddress, parse_ip, parse_subnet
from rollup_node.stages.p2p.addresses.multiaddr import tcp_multiaddr
from rollup_node.stages.p2p.addresses.peer_id import SECP256K1, NetworkIdentity, PublicKey, node_id
from rollup_node.stages.p2p.config import P2pConfig
from rollup_node.stages.p2p.discv5 import node as discv5
from rollup_node.stages.p2p.discv5.calls import OutgoingPacket
from rollup_node.stages.p2p.discv5.enode import Enode, parse_bootnode
from rollup_node.stages.p2p.discv5.enr import AdvertisedEndpoint, Endpoint, Enr, LocalEnr
from rollup_node.stages.p2p.discv5.packet_codec import PacketDrop
from rollup_node.stages.p2p.discv5.packets import MAX_PACKET_BYTES
from rollup_node.stages.p2p.host.io.host import Host
from rollup_node.stages.p2p.host.io.host_api import HostEvent, PeerConnected, PeerDisconnected
from rollup_node.stages.p2p.peering.io.port_mapper import ExternalMapping, GatewayAddresses, LocalPort, PortMapper
from rollup_node.stages.p2p.peering.nat_pmp import TransportProtocol
from rollup_node.stages.p2p.storage.io.node_database import NodeDatabase
from rollup_node.stages.p2p.storage.io.peerstore import DISCOVERED_TTL
from rollup_node.stages.p2p.storage.peer_record import PeerMetadata

BUSY_INTERVAL = 0.1
IDLE_INTERVAL = 0.5
RESOLVE_INTERVAL = 60.0
_RESOLVE_TIMEOUT = 5.0
_REPORT_INTERVAL = 5.0

log = Logger("p2p")


class DiscoveryError(Exception):
    """Discovery cannot start; the text says why and what to do."""


class _Protocol(asyncio.DatagramProtocol):
    def __init__(self) -> None:
        self.receive: Callable[[bytes, Endpoint], None] = lambda data, sender: None

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self.receive(data[: MAX_PACKET_BYTES + 1], Endpoint(parse_ip(addr[0]), addr[1]))


class Discv5Server:
    """Discovery on an open socket: call `step` after the delay it returns.

    `on_found` is called with peers, `on_enr_updated` with new versions of our own record."""

    def __init__(
        self,
        config: P2pConfig,
        meter: Meter,
        on_found: Callable[[discv5.ChainNodeFound], None],
        database: NodeDatabase,
        transport: asyncio.DatagramTransport,
        node: discv5.Discv5Node,
    ) -> None:
        self.on_enr_updated: Callable[[Enr], None] = lambda record: None
        self.node = node
        self._config, self._meter, self._on_found = config, meter, on_found
        self._bootnodes = [parse_bootnode(text) for text in config.bootnodes]
        self._database, self._transport = database, transport
        self._resolving: asyncio.Task[None] | None = None
        self._metrics_due = self._resolve_due = 0.0
        self._counted: Counter[str] = Counter()
        self._alive: dict[bytes, Enr] = {}
        self._gone: set[bytes] = set()

    @classmethod
    async def start(
        cls,
        config: P2pConfig,
        identity: NetworkIdentity,
        meter: Meter,
        tcp: int,
        on_found: Callable[[discv5.ChainNodeFound], None],
    ) -> Self:
        """Open database and socket; `tcp` is libp2p's port. Raises DiscoveryError or StoreError."""
        database = NodeDatabase(config.discovery_path)
        try:
            ip = await _advertised_ip(config.advertise_ip)
            protocol = _Protocol()
            transport = await _bind(config, tcp, protocol)
        except BaseException:
            database.close()
            raise
        node = _new_node(config, identity, database, ip, _endpoint(transport), tcp)
        server = cls(config, meter, on_found, database, transport, node)
        protocol.receive = server._receive
        log.info("discovery listening", address=str(server.endpoint), record=server.enr.text)
        return server

    async def step(self) -> float:
        """Do what is due; returns the seconds until the next call."""
        now = time.monotonic()
        self._resolve(now)
        self.node.tick(now)
        self.flush()
        if now >= self._metrics_due:
            self._metrics_due = now + _REPORT_INTERVAL
            self._update_metrics()
        return BUSY_INTERVAL if self.node.is_busy else IDLE_INTERVAL

    def close(self) -> None:
        if self._resolving is not None:
            self._resolving.cancel()
        self._transport.abort()
        self._save_nodes()
        self._database.close()

    def set_peer_count(self, count: int) -> None:
        """Set the number of connected peers; below `p2p.peers.lo` more are sought [DSC6]."""
        self.node.peers_wanted = count < self._config.peers_lo

    def set_external_address(self, ip: IpAddress, udp: int, tcp: int) -> None:
        """Set the address and ports that a gateway maps to us; `p2p.advertise.*` takes precedence."""
        if self._config.advertise_ip is None:
            config = self._config
            advertised = AdvertisedEndpoint(
                config.rollup.l2_chain_id, ip, config.advertise_udp or udp, config.advertise_tcp or tcp
            )
            self.node.set_address(advertised)
            self.flush()

    @property
    def enr(self) -> Enr:
        """Our own record."""
        return self.node.local_enr.enr

    @property
    def endpoint(self) -> Endpoint:
        """The address that the socket is bound to."""
        return _endpoint(self._transport)

    @property
    def table(self) -> list[Enr]:
        """The records of all nodes in the table, for `opp2p_discoveryTable` [RPC70]."""
        return [entry.record for entry in self.node.table]

    def _resolve(self, now: float) -> None:
        """Resolve the names of bootnodes in the background, again after a while for those that failed."""
        if self._bootnodes and now >= self._resolve_due and (self._resolving is None or self._resolving.done()):
            self._resolve_due = now + RESOLVE_INTERVAL
            self._resolving = asyncio.get_running_loop().create_task(self._add_bootnodes())

    async def _add_bootnodes(self) -> None:
        contacts, unresolved = [], []
        for bootnode in self._bootnodes:
            if isinstance(bootnode, Enode):
                address = bootnode.address or await _resolve(bootnode.host)
                contact = bootnode.contact(address) if address else None
                if contact is None:
                    log.warn("cannot resolve bootnode, will retry", code=Code.BOOTNODE.text, name=bootnode.host)
                    unresolved.append(bootnode)
            else:
                contact = bootnode.contact(self.node.settings.ip_versions)
                if contact is None:
                    text = "bootnode record has no reachable address"
                    log.warn(text, code=Code.BOOTNODE.text, record=bootnode.text)
            if contact is not None:
                contacts.append(contact)
        self._bootnodes = list(unresolved)
        if contacts:
            self.node.add_bootnodes(contacts)

    def _receive(self, data: bytes, sender: Endpoint) -> None:
        self.node.receive_datagram(data, sender, time.monotonic())
        self.flush()

    def flush(self) -> None:
        """Carry out the node's outputs: sends packets, passes on nodes found."""
        for output in self.node.take_outputs():
            if isinstance(output, OutgoingPacket):
                self._send(output)
            elif isinstance(output, discv5.ChainNodeFound):
                self._on_found(output)
            elif isinstance(output, discv5.NodeAlive):
                self._alive[output.record.node_id] = output.record
                self._gone.discard(output.record.node_id)
            elif isinstance(output, discv5.NodeGone):
                self._gone.add(output.node)
                self._alive.pop(output.node, None)
            elif isinstance(output, discv5.LocalEnrUpdated):
                self._on_local_enr(output.record)

    def _send(self, sending: OutgoingPacket) -> None:
        if self._transport.is_closing():
            return
        ip, port = sending.endpoint
        is_mapped = ip.version == 4 and self.endpoint.ip.version == 6
        self._transport.sendto(sending.datagram, (f"::ffff:{ip}" if is_mapped else str(ip), port))

    def _on_local_enr(self, record: Enr) -> None:
        log.info("local node record updated", record=record.text)
        self._database.save_local_enr(record)
        self.on_enr_updated(record)

    def _update_metrics(self) -> None:
        self._save_nodes()
        stats = self.node.table_stats()
        for kind, number in zip(stats._fields, stats, strict=True):
            self._meter.set("p2p_discovery_nodes", number, kind=kind)
        for drop, number in self.node.drops.items():
            self._meter.count("p2p_discovery_drops_total", number - self._counted[drop.name], reason=drop.value)
            self._counted[drop.name] = number

    def _save_nodes(self) -> None:
        if self._alive or self._gone:
            self._database.update_nodes(self._alive.values(), self._gone)
            self._alive.clear()
            self._gone.clear()


def _endpoint(transport: asyncio.DatagramTransport) -> Endpoint:
    host, port = transport.get_extra_info("sockname")[:2]
    return Endpoint(parse_ip(host), port)


async def _bind(config: P2pConfig, tcp: int, protocol: _Protocol) -> asyncio.DatagramTransport:
    """Bind the socket: 0 means libp2p's TCP port, or any free one if both are 0 and that one is taken."""
    ports = [config.listen_udp or tcp] + ([0] if not config.listen_udp and not config.listen_tcp else [])
    for port in ports:
        try:
            local = (config.listen_ip, port)
            return (await asyncio.get_running_loop().create_datagram_endpoint(lambda: protocol, local_addr=local))[0]
        except OSError as error:
            reason = error.strerror
    raise DiscoveryError(
        f"cannot listen for discovery on {config.listen_ip}:{ports[0]}: {reason} (p2p.listen.ip, p2p.listen.udp)"
    )


def _new_node(
    config: P2pConfig,
    identity: NetworkIdentity,
    database: NodeDatabase,
    ip: IpAddress | None,
    bound: Endpoint,
    tcp: int,
) -> discv5.Discv5Node:
    """Return the discovery node, with its record and the nodes from before a restart; `ip` is `p2p.advertise.ip`."""
    versions = (4,) if bound.ip.version == 4 else (6, 4)
    settings = discv5.Discv5Settings(
        chain_id=config.rollup.l2_chain_id,
        allowed_networks=tuple(parse_subnet(text) for text in config.netrestrict),
        ip_versions=versions if bound.ip.is_unspecified else versions[:1],
        learn_address=ip is None,
    )
    own = None if bound.ip.is_unspecified else bound.ip
    udp = config.advertise_udp or bound.port
    advertised = AdvertisedEndpoint(settings.chain_id, ip or own, udp, config.advertise_tcp or tcp)
    former = database.local_enr(node_id(identity.public_key.data))
    local = LocalEnr(identity.secret, advertised, time.time_ns() // 1_000_000, former)
    database.save_local_enr(local.enr)
    node = discv5.Discv5Node(settings, identity.secret, local, token_bytes)
    node.add_known_nodes(database.nodes(), time.monotonic())
    return node


async def _advertised_ip(host: str | None) -> IpAddress | None:
    """Return the address of `p2p.advertise.ip`, of a name the first IPv4 one. Raises DiscoveryError."""
    if host is None:
        return None
    result = await _resolve(host)
    if result is None:
        raise DiscoveryError(f"cannot resolve {host!r} to an IP address (p2p.advertise.ip)")
    return result


async def _resolve(host: str) -> IpAddress | None:
    """Return the address of a host, IPv4 preferred; None when it has none, or not in time."""
    try:
        return parse_ip(host)
    except ValueError:
        pass
    try:
        async with asyncio.timeout(_RESOLVE_TIMEOUT):
            result = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_DGRAM)
    except (OSError, UnicodeError, TimeoutError):
        return None
    addresses = [ipaddress.ip_address(str(entry[4][0]).partition("%")[0]) for entry in result]
    return min(addresses, key=lambda address: address.version, default=None)


class DiscoveryService:
    """Discovery and port mapping for one host, which must listen before `start`.

    Before `start` there is neither; `discv5` is None with `p2p.no-discovery`, `port_mapper` without `p2p.nat`."""

    def __init__(self, host: Host, *, gateways: GatewayAddresses | None = None) -> None:
        self._host = host
        self.port_mapper: PortMapper | None = None
        self._gateways = gateways
        self.discv5: Discv5Server | None = None
        for drop in () if host.config.no_discovery else PacketDrop:
            host.meter.count("p2p_discovery_drops_total", 0, reason=drop.value)
        host.subscribe(self._on_host_event)

    async def start(self) -> None:
        """Open the discovery socket. Raises DiscoveryError or StoreError."""
        host, config, port = self._host, self._host.config, self._host.port
        ports = [LocalPort(TransportProtocol.TCP, port)]
        if not config.no_discovery:
            self.discv5 = await Discv5Server.start(config, host.identity, host.meter, port, self.on_peer_found)
            self.discv5.on_enr_updated = self._on_enr_updated
            self._on_enr_updated(self.discv5.enr)
            self.discv5.set_peer_count(len(host.connections()))
            ports.append(LocalPort(TransportProtocol.UDP, self.discv5.endpoint.port))
        if config.nat:
            networks = [parse_subnet(text) for text in config.netrestrict]
            self.port_mapper = PortMapper(
                ports, self.on_ports_mapped, gateways=self._gateways, allowed_networks=networks
            )

    async def close(self) -> None:
        """Close the discovery socket and deletes the port mappings, within about a second."""
        if self.discv5 is not None:
            self.discv5.close()
        if self.port_mapper is not None:
            await self.port_mapper.close()

    def on_peer_found(self, node: discv5.ChainNodeFound) -> None:
        """Store a peer of our chain, so that it is dialled when more are wanted [DSC7]."""
        host, peer = self._host, PublicKey(SECP256K1, node.record.public_key).peer_id
        if peer == host.peer_id:
            return
        host.peerstore.add_addresses(peer, [tcp_multiaddr(str(node.tcp.ip), node.tcp.port)], DISCOVERED_TTL)
        host.peerstore.set_record(peer, PeerMetadata(node.record.text, host.config.rollup.l2_chain_id))
        if host.connection(peer) is not None:
            host.connection_manager.preferred.add(peer)

    def _on_host_event(self, event: HostEvent) -> None:
        if isinstance(event, PeerConnected):
            metadata = self._host.peerstore.record(event.peer, PeerMetadata)
            if metadata is not None and metadata.chain_id == self._host.config.rollup.l2_chain_id:
                self._host.connection_manager.preferred.add(event.peer)
        if isinstance(event, PeerConnected | PeerDisconnected) and self.discv5 is not None:
            self.discv5.set_peer_count(len(self._host.connections()))

    def _on_enr_updated(self, record: Enr) -> None:
        """Set the host's external address to that of our record."""
        endpoint = record.tcp(4) or record.tcp(6)
        if endpoint is not None:
            self._host.external_address = tcp_multiaddr(str(endpoint.ip), endpoint.port)

    def on_ports_mapped(self, mapping: ExternalMapping) -> None:
        ports = {local.transport: port for local, port in mapping.ports.items()}
        if self.discv5 is not None:
            self.discv5.set_external_address(
                mapping.ip, ports.get(TransportProtocol.UDP, 0), ports[TransportProtocol.TCP]
            )
        elif self._host.config.advertise_ip is None:
            tcp = self._host.config.advertise_tcp or ports[TransportProtocol.TCP]
            self._host.external_address = tcp_multiaddr(str(mapping.ip), tcp)
