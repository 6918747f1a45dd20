"""Where new peers come from: discovery finds those of our chain and the host learns their addresses; the router, if it
is to be asked (`p2p.nat`), forwards our ports; both say at which address others reach us (node-behaviour 13.2)."""

from collections.abc import Callable

from rollup_node.stages.io.task import PeriodicTask
from rollup_node.stages.p2p.discv5.enr import Enr
from rollup_node.stages.p2p.discv5.io.udp_service import DiscoveryServer, FoundPeer
from rollup_node.stages.p2p.gating.connection_gater import parse_subnet
from rollup_node.stages.p2p.host.host_api import HostEvent, PeerConnected, PeerDisconnected
from rollup_node.stages.p2p.host.io.host import Host
from rollup_node.stages.p2p.identity.multiaddr import tcp_multiaddr
from rollup_node.stages.p2p.identity.peer_id import PeerId
from rollup_node.stages.p2p.nat.io.port_mapper import NatKeeper, Targets
from rollup_node.stages.p2p.nat.io.routers import Outer, Wanted
from rollup_node.stages.p2p.nat.nat_pmp import Transport
from rollup_node.stages.p2p.peerstore.io.peerstore import FOUND_TTL
from rollup_node.stages.p2p.peerstore.peer_record import PeerMetadata

TAG_VALUE = 42


class PeerFinder:
    """Discovery and the router for one host, which must listen before `start`. `server` is None with
    `p2p.no-discovery`. Make it once per host; run its activities after the start."""

    def __init__(self, host: Host, *, targets: Targets | None = None) -> None:
        self._host = host
        self._tag = f"opstack-{host.config.rollup.l2_chain_id}-0"
        self._nat: NatKeeper | None = None
        self._targets = targets
        self.on_found: Callable[[FoundPeer], None] = lambda found: None
        self.server: DiscoveryServer | None = None
        if not host.config.no_discovery:
            self.server = DiscoveryServer(host.config, host.identity, host.meter, self._found)
            self.server.on_moved = self._moved
        host.on_event(self._heard)

    @property
    def periodic_tasks(self) -> tuple[PeriodicTask, ...]:
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
        wanted = [Wanted(Transport.TCP, port)]
        if self.server is not None:
            await self.server.start(port)
            self._moved(self.server.record)
            self.server.set_peer_count(len(self._host.connections()))
            wanted.append(Wanted(Transport.UDP, self.server.endpoint.port))
        if config.nat:
            networks = [parse_subnet(text) for text in config.netrestrict]
            self._nat = NatKeeper(wanted, self._forwarded, targets=self._targets, restricted_to=networks)

    async def close(self) -> None:
        """Closes discovery's socket and gives the router's ports back, within about a second."""
        if self.server is not None:
            self.server.close()
        if self._nat is not None:
            await self._nat.close()

    def _found(self, found: FoundPeer) -> None:
        """Remembers a peer, so that it is dialled when more are wanted."""
        if found.peer == self._host.peer_id:
            return
        self._host.store.add_addresses(found.peer, [found.address], FOUND_TTL)
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

    def _forwarded(self, outer: Outer) -> None:
        ports = {wanted.transport: port for wanted, port in outer.ports.items()}
        if self.server is not None:
            self.server.set_outer_address(outer.ip, ports.get(Transport.UDP, 0), ports[Transport.TCP])
        elif self._host.config.advertise_ip is None:
            tcp = self._host.config.advertise_tcp or ports[Transport.TCP]
            self._host.external = tcp_multiaddr(str(outer.ip), tcp)
