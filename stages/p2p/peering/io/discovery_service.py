"""Where new peers come from: discovery finds those of our chain and the host learns their addresses; the router, if it
is to be asked (`p2p.nat`), forwards our ports; both say at which address others reach us (node-behaviour 13.2)."""

from collections.abc import Callable

from rollup_node.stages.io.task import PeriodicTask
from rollup_node.stages.p2p.addresses.ip import parse_subnet
from rollup_node.stages.p2p.addresses.multiaddr import tcp_multiaddr
from rollup_node.stages.p2p.discv5.enr import Enr
from rollup_node.stages.p2p.discv5.io.udp_server import DiscoveredPeer, Discv5Server
from rollup_node.stages.p2p.host.io.host import Host
from rollup_node.stages.p2p.host.io.host_api import HostEvent, PeerConnected, PeerDisconnected
from rollup_node.stages.p2p.identity.peer_id import PeerId
from rollup_node.stages.p2p.nat.io.gateways import ExternalMapping, LocalPort
from rollup_node.stages.p2p.nat.io.port_mapper import GatewayAddresses, PortMapper
from rollup_node.stages.p2p.nat.nat_pmp import TransportProtocol
from rollup_node.stages.p2p.peerstore.io.peerstore import DISCOVERED_TTL
from rollup_node.stages.p2p.peerstore.peer_record import PeerMetadata

TAG_VALUE = 42


class DiscoveryService:
    """Discovery and the router for one host, which must listen before `start`. `server` is None with
    `p2p.no-discovery`. Make it once per host; run its activities after the start."""

    def __init__(self, host: Host, *, targets: GatewayAddresses | None = None) -> None:
        self._host = host
        self._tag = f"opstack-{host.config.rollup.l2_chain_id}-0"
        self._nat: PortMapper | None = None
        self._targets = targets
        self.on_found: Callable[[DiscoveredPeer], None] = lambda found: None
        self.server: Discv5Server | None = None
        if not host.config.no_discovery:
            self.server = Discv5Server(host.config, host.identity, host.meter, self._found)
            self.server.on_moved = self._moved
        host.on_event(self._heard)

    @property
    def activities(self) -> tuple[PeriodicTask, ...]:
        """What the runtime repeats once `start` is over."""
        found = []
        if self.server is not None:
            found.append(PeriodicTask("discovery", self.server.step))
        if self._nat is not None:
            found.append(PeriodicTask("port forwarding", self._nat.step))
        return tuple(found)

    async def start(self) -> None:
        """Opens discovery's socket; DiscoveryError or StoreError if it cannot be had."""
        config, port = self._host.config, self._host.port
        wanted = [LocalPort(TransportProtocol.TCP, port)]
        if self.server is not None:
            await self.server.start(port)
            self._moved(self.server.record)
            self.server.set_peer_count(len(self._host.connections()))
            wanted.append(LocalPort(TransportProtocol.UDP, self.server.endpoint.port))
        if config.nat:
            networks = [parse_subnet(text) for text in config.netrestrict]
            self._nat = PortMapper(wanted, self._forwarded, targets=self._targets, restricted_to=networks)

    async def close(self) -> None:
        """Closes discovery's socket and gives the router's ports back, within about a second."""
        if self.server is not None:
            self.server.close()
        if self._nat is not None:
            await self._nat.close()

    def _found(self, found: DiscoveredPeer) -> None:
        """Remembers a peer, so that it is dialled when more are wanted."""
        if found.peer == self._host.peer_id:
            return
        self._host.store.add_addresses(found.peer, [found.address], DISCOVERED_TTL)
        self._host.store.set_metadata(found.peer, PeerMetadata(found.record, found.chain_id))
        if self._host.connection(found.peer) is not None:
            self._mark(found.peer)
        self.on_found(found)

    def _heard(self, event: HostEvent) -> None:
        if isinstance(event, PeerConnected):
            metadata = self._host.store.metadata(event.peer)
            if metadata is not None and metadata.chain_id == self._host.config.rollup.l2_chain_id:
                self._mark(event.peer)
        if isinstance(event, PeerConnected | PeerDisconnected) and self.server is not None:
            self.server.set_peer_count(len(self._host.connections()))

    def _mark(self, peer: PeerId) -> None:
        """Lets other peers go before one that is known to be of our chain."""
        self._host.manager.tag(peer, self._tag, TAG_VALUE)

    def _moved(self, record: Enr) -> None:
        """Tells peers where our record says that we are reached."""
        reached = record.tcp(4) or record.tcp(6)
        if reached is not None:
            self._host.external = tcp_multiaddr(str(reached.ip), reached.port)

    def _forwarded(self, outer: ExternalMapping) -> None:
        ports = {wanted.transport: port for wanted, port in outer.ports.items()}
        if self.server is not None:
            self.server.set_outer_address(outer.ip, ports.get(TransportProtocol.UDP, 0), ports[TransportProtocol.TCP])
        elif self._host.config.advertise_ip is None:
            tcp = self._host.config.advertise_tcp or ports[TransportProtocol.TCP]
            self._host.external = tcp_multiaddr(str(outer.ip), tcp)
