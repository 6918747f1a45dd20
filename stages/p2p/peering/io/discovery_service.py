"""Discovery for the host: stores peers of our chain that discv5 finds, and maps ports (`p2p.nat`) [DSC4, DSC7]."""

from rollup_node.stages.p2p.addresses.ip import parse_subnet
from rollup_node.stages.p2p.addresses.multiaddr import tcp_multiaddr
from rollup_node.stages.p2p.discv5.enr import Enr
from rollup_node.stages.p2p.host.io.host import Host
from rollup_node.stages.p2p.host.io.host_api import HostEvent, PeerConnected, PeerDisconnected
from rollup_node.stages.p2p.identity.peer_id import PeerId
from rollup_node.stages.p2p.nat.nat_pmp import TransportProtocol
from rollup_node.stages.p2p.peering.io.discv5_server import DiscoveredPeer, Discv5Server
from rollup_node.stages.p2p.peering.io.gateways import ExternalMapping, LocalPort
from rollup_node.stages.p2p.peering.io.port_mapper import GatewayAddresses, PortMapper
from rollup_node.stages.p2p.storage.io.peerstore import DISCOVERED_TTL
from rollup_node.stages.p2p.storage.peer_record import PeerMetadata

TAG_VALUE = 42
"""The value of the connection manager's tag of peers of our chain [DSC7]."""


class DiscoveryService:
    """Discovery and port mapping for one host, which must listen before `start`.

    `discv5` is None with `p2p.no-discovery`, `port_mapper` without `p2p.nat` and before `start`."""

    def __init__(self, host: Host, *, gateways: GatewayAddresses | None = None) -> None:
        self._host = host
        self._tag = f"opstack-{host.config.rollup.l2_chain_id}-0"
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

    def on_peer_found(self, discovered_peer: DiscoveredPeer) -> None:
        """Store a peer, so that it is dialled when more are wanted."""
        if discovered_peer.peer == self._host.peer_id:
            return
        self._host.peerstore.add_addresses(discovered_peer.peer, [discovered_peer.address], DISCOVERED_TTL)
        self._host.peerstore.set_metadata(
            discovered_peer.peer, PeerMetadata(discovered_peer.enr, discovered_peer.chain_id)
        )
        if self._host.connection(discovered_peer.peer) is not None:
            self._tag_peer(discovered_peer.peer)

    def _on_host_event(self, event: HostEvent) -> None:
        if isinstance(event, PeerConnected):
            metadata = self._host.peerstore.metadata(event.peer)
            if metadata is not None and metadata.chain_id == self._host.config.rollup.l2_chain_id:
                self._tag_peer(event.peer)
        if isinstance(event, PeerConnected | PeerDisconnected) and self.discv5 is not None:
            self.discv5.set_peer_count(len(self._host.connections()))

    def _tag_peer(self, peer: PeerId) -> None:
        """Make the connection manager trim other peers before this one."""
        self._host.connection_manager.tag(peer, self._tag, TAG_VALUE)

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
