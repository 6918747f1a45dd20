"""Discovery over a UDP socket for the host, and the ports that a gateway maps (`p2p.nat`) [DSC1, DSC2, DSC4, DSC7]."""

import asyncio
import ipaddress
import socket
import time
from collections import Counter
from collections.abc import Callable
from secrets import token_bytes

from rollup_node.stages.io.log.logger import get_logger
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

log = get_logger("p2p")


class DiscoveryError(Exception):
    """Discovery cannot start; the text says why and what to do."""


class _Protocol(asyncio.DatagramProtocol):
    def __init__(self, receive: Callable[[bytes, Endpoint], None]) -> None:
        self._receive = receive

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self._receive(data[: MAX_PACKET_BYTES + 1], Endpoint(parse_ip(addr[0]), addr[1]))


class Discv5Server:
    """Discovery on a socket: call `start` once, then `step` after the delay it returns.

    `on_found` is called with peers, `on_enr_updated` with new versions of our own record."""

    def __init__(
        self,
        config: P2pConfig,
        identity: NetworkIdentity,
        meter: Meter,
        on_found: Callable[[discv5.ChainNodeFound], None],
    ) -> None:
        self.on_enr_updated: Callable[[Enr], None] = lambda record: None
        self._config, self._identity, self._meter, self._on_found = config, identity, meter, on_found
        self._bootnodes = [parse_bootnode(text) for text in config.bootnodes]
        self._database: NodeDatabase | None = None
        self._transport: asyncio.DatagramTransport | None = None
        self._node: discv5.Discv5Node | None = None
        self._resolving: asyncio.Task[None] | None = None
        self._metrics_due = self._resolve_due = 0.0
        self._counted: Counter[str] = Counter()
        for drop in PacketDrop:
            meter.count("p2p_discovery_drops_total", 0, reason=drop.value)
        self._alive: dict[bytes, Enr] = {}
        self._gone: set[bytes] = set()
        self._tcp = 0

    async def start(self, tcp: int) -> None:
        """Open database and socket; `tcp` is libp2p's port. Raises DiscoveryError or StoreError."""
        self._tcp = tcp
        self._database = NodeDatabase(self._config.discovery_path)
        try:
            self._transport = await self._bind(tcp)
            await self._prepare(self._database)
        except BaseException:
            self.close()
            raise
        log.info("discovery listening", address=str(self.endpoint), record=self.enr.text)

    async def step(self) -> float:
        """Do what is due; returns the seconds until the next call."""
        node, now = self.node, time.monotonic()
        self._resolve(node, now)
        node.tick(now)
        self.flush()
        if now >= self._metrics_due:
            self._metrics_due = now + _REPORT_INTERVAL
            self._update_metrics(node)
        return BUSY_INTERVAL if node.is_busy else IDLE_INTERVAL

    def close(self) -> None:
        if self._resolving is not None:
            self._resolving.cancel()
        if self._transport is not None:
            self._transport.abort()
        if self._database is not None:
            self._save_nodes(self._database)
            self._database.close()

    def set_peer_count(self, count: int) -> None:
        """Set the number of connected peers; below `p2p.peers.lo` more are sought [DSC6]."""
        if self._node is not None:
            self._node.peers_wanted = count < self._config.peers_lo

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
    def node(self) -> discv5.Discv5Node:
        """The discovery node. Raises RuntimeError before `start`."""
        if self._node is None:
            raise RuntimeError("discovery has not started")
        return self._node

    @property
    def enr(self) -> Enr:
        """Our own record."""
        return self.node.local_enr.enr

    @property
    def endpoint(self) -> Endpoint:
        """The address that the socket is bound to. Raises RuntimeError before `start`."""
        if self._transport is None:
            raise RuntimeError("discovery has not started")
        host, port = self._transport.get_extra_info("sockname")[:2]
        return Endpoint(parse_ip(host), port)

    @property
    def table(self) -> list[Enr]:
        """The records of all nodes in the table, for `opp2p_discoveryTable` [RPC70]."""
        return [entry.record for entry in self.node.table]

    async def _bind(self, tcp: int) -> asyncio.DatagramTransport:
        """Bind the socket: 0 means libp2p's TCP port, or any free one if both are 0 and that one is taken."""
        config = self._config
        ports = [config.listen_udp or tcp] + ([0] if not config.listen_udp and not config.listen_tcp else [])
        for port in ports:
            try:
                return await self._open(config.listen_ip, port)
            except OSError as error:
                reason = error.strerror
        raise DiscoveryError(
            f"cannot listen for discovery on {config.listen_ip}:{ports[0]}: {reason} (p2p.listen.ip, p2p.listen.udp)"
        )

    async def _open(self, ip: str, port: int) -> asyncio.DatagramTransport:
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_datagram_endpoint(lambda: _Protocol(self._receive), local_addr=(ip, port))
        return transport

    async def _prepare(self, database: NodeDatabase) -> None:
        config = self._config
        versions = (4,) if self.endpoint.ip.version == 4 else (6, 4)
        ip = await self._advertised_ip()
        secret = self._identity.secret
        settings = discv5.Discv5Settings(
            chain_id=config.rollup.l2_chain_id,
            allowed_networks=tuple(parse_subnet(text) for text in config.netrestrict),
            ip_versions=versions if self.endpoint.ip.is_unspecified else versions[:1],
            learn_address=ip is None,
        )
        udp = config.advertise_udp or self.endpoint.port
        own = None if self.endpoint.ip.is_unspecified else self.endpoint.ip
        advertised = AdvertisedEndpoint(settings.chain_id, ip or own, udp, config.advertise_tcp or self._tcp)
        seq = time.time_ns() // 1_000_000
        local = LocalEnr(secret, advertised, seq, database.local_enr(node_id(self._identity.public_key.data)))
        database.save_local_enr(local.enr)
        self._node = discv5.Discv5Node(settings, secret, local, token_bytes)
        self._node.add_known_nodes(database.nodes(), time.monotonic())

    async def _advertised_ip(self) -> IpAddress | None:
        """Return the address of `p2p.advertise.ip`, of a name the first IPv4 one. Raises DiscoveryError."""
        host = self._config.advertise_ip
        if host is None:
            return None
        result = await _resolve(host)
        if result is None:
            raise DiscoveryError(f"cannot resolve {host!r} to an IP address (p2p.advertise.ip)")
        return result

    def _resolve(self, node: discv5.Discv5Node, now: float) -> None:
        """Resolve the names of bootnodes in the background, again after a while for those that failed."""
        if self._bootnodes and now >= self._resolve_due and (self._resolving is None or self._resolving.done()):
            self._resolve_due = now + RESOLVE_INTERVAL
            self._resolving = asyncio.get_running_loop().create_task(self._add_bootnodes(node))

    async def _add_bootnodes(self, node: discv5.Discv5Node) -> None:
        contacts, unresolved = [], []
        for bootnode in self._bootnodes:
            if isinstance(bootnode, Enode):
                address = bootnode.address or await _resolve(bootnode.host)
                contact = bootnode.contact(address) if address else None
                if contact is None:
                    log.warn("cannot resolve bootnode, will retry", code=Code.BOOTNODE.text, name=bootnode.host)
                    unresolved.append(bootnode)
            else:
                contact = bootnode.contact(node.settings.ip_versions)
                if contact is None:
                    text = "bootnode record has no reachable address"
                    log.warn(text, code=Code.BOOTNODE.text, record=bootnode.text)
            if contact is not None:
                contacts.append(contact)
        self._bootnodes = list(unresolved)
        if contacts:
            node.add_bootnodes(contacts)

    def _receive(self, data: bytes, sender: Endpoint) -> None:
        if self._node is not None:
            self._node.receive_datagram(data, sender, time.monotonic())
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
        if self._transport is None or self._transport.is_closing():
            return
        ip, port = sending.endpoint
        is_mapped = ip.version == 4 and self.endpoint.ip.version == 6
        self._transport.sendto(sending.datagram, (f"::ffff:{ip}" if is_mapped else str(ip), port))

    def _on_local_enr(self, record: Enr) -> None:
        log.info("local node record updated", record=record.text)
        if self._database is not None:
            self._database.save_local_enr(record)
        self.on_enr_updated(record)

    def _update_metrics(self, node: discv5.Discv5Node) -> None:
        if self._database is not None:
            self._save_nodes(self._database)
        stats = node.table_stats()
        for kind, number in zip(stats._fields, stats, strict=True):
            self._meter.set("p2p_discovery_nodes", number, kind=kind)
        for drop, number in node.drops.items():
            self._meter.count("p2p_discovery_drops_total", number - self._counted[drop.name], reason=drop.value)
            self._counted[drop.name] = number

    def _save_nodes(self, database: NodeDatabase) -> None:
        if self._alive or self._gone:
            database.update_nodes(self._alive.values(), self._gone)
            self._alive.clear()
            self._gone.clear()


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

    `discv5` is None with `p2p.no-discovery`, `port_mapper` without `p2p.nat` and before `start`."""

    def __init__(self, host: Host, *, gateways: GatewayAddresses | None = None) -> None:
        self._host = host
        self.port_mapper: PortMapper | None = None
        self._gateways = gateways
        self.discv5: Discv5Server | None = None
        if not host.config.no_discovery:
            self.discv5 = Discv5Server(host.config, host.identity, host.meter, self.on_peer_found)
            self.discv5.on_enr_updated = self._on_enr_updated
        host.subscribe(self._on_host_event)

    async def start(self) -> None:
        """Open the discovery socket. Raises DiscoveryError or StoreError."""
        config, port = self._host.config, self._host.port
        ports = [LocalPort(TransportProtocol.TCP, port)]
        if self.discv5 is not None:
            await self.discv5.start(port)
            self._on_enr_updated(self.discv5.enr)
            self.discv5.set_peer_count(len(self._host.connections()))
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

    def on_peer_found(self, found: discv5.ChainNodeFound) -> None:
        """Store a peer of our chain, so that it is dialled when more are wanted [DSC7]."""
        host, peer = self._host, PublicKey(SECP256K1, found.record.public_key).peer_id
        if peer == host.peer_id:
            return
        host.peerstore.add_addresses(peer, [tcp_multiaddr(str(found.tcp.ip), found.tcp.port)], DISCOVERED_TTL)
        host.peerstore.set_record(peer, PeerMetadata(found.record.text, host.config.rollup.l2_chain_id))
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
