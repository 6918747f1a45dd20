"""Discovery nodes that exchange datagrams in memory and in simulated time."""

import hashlib
import heapq
import ipaddress
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from rollup_node.stages.p2p.addresses.ip import IpAddress, Subnet
from rollup_node.stages.p2p.discv5.calls import OutgoingPacket
from rollup_node.stages.p2p.discv5.enr import AdvertisedEndpoint, Contact, Endpoint, Enr, LocalEnr
from rollup_node.stages.p2p.discv5.node import (
    ChainNodeFound,
    Discv5Node,
    Discv5Output,
    Discv5Settings,
    LocalEnrUpdated,
    NodeAlive,
    NodeGone,
)
from rollup_node.stages.p2p.discv5.table import RESULT_SIZE, Lookup

CHAIN = 901
LOOPBACK = (ipaddress.ip_network("127.0.0.0/8"),)
DELAY = 0.01


def seeded(seed: object) -> Callable[[int], bytes]:
    """Return a source of bytes that are the same for the same seed."""
    count = 0

    def random(size: int) -> bytes:
        nonlocal count
        count += 1
        return hashlib.shake_128(f"{seed}/{count}".encode()).digest(size)

    return random


def secret_of(seed: object) -> bytes:
    return hashlib.sha256(f"secret {seed}".encode()).digest()


def record_of(
    seed: object, ip: str | None = "127.0.0.1", port: int = 9222, *, chain: int = CHAIN, seq: int = 1, tcp: int = 9222
) -> Enr:
    """Return the signed record of a node whose key is derived from the seed."""
    address = ipaddress.ip_address(ip) if ip else None
    return LocalEnr(secret_of(seed), AdvertisedEndpoint(chain, address, port, tcp), seq).enr


def contact_of(record: Enr) -> Contact:
    result = record.contact()
    assert result is not None
    return result


def result_of(lookup: Lookup) -> list[Contact]:
    """Return the closest nodes that responded, closest first."""
    responded = lookup.queried - lookup.failed - lookup.in_flight
    return [contact for contact in lookup._by_closeness() if contact.node_id in responded][:RESULT_SIZE]


def endpoint(ip: str, port: int = 9222) -> Endpoint:
    return Endpoint(ipaddress.ip_address(ip), port)


@dataclass
class SimulatedNode:
    """A node of the simulation, its endpoint, and its outputs."""

    node: Discv5Node
    endpoint: Endpoint
    discovered: list[ChainNodeFound] = field(default_factory=list)
    others: list[Discv5Output] = field(default_factory=list)
    sent: int = 0

    @property
    def record(self) -> Enr:
        return self.node.local_enr.enr

    @property
    def contact(self) -> Contact:
        return Contact(self.node.codec.node_id, self.record.public_key, self.endpoint, self.record)

    @property
    def live_ids(self) -> set[bytes]:
        return {entry.record.node_id for entry in self.node.table.live}

    def outputs(self, kind: type[NodeAlive] | type[NodeGone] | type[LocalEnrUpdated]) -> list[Discv5Output]:
        return [output for output in self.others if isinstance(output, kind)]


class Discv5Simulation:
    """Nodes by endpoint. `filter` may drop a datagram (None) or change it; it is called with the sender's endpoint."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.nodes: dict[Endpoint, SimulatedNode] = {}
        self.filter: Callable[[Endpoint, OutgoingPacket], OutgoingPacket | None] = lambda sender, sending: sending
        self.log: list[tuple[Endpoint, OutgoingPacket]] = []
        self._in_flight: list[tuple[float, int, Endpoint, OutgoingPacket]] = []
        self._count = 0
        self._next_tick = 0.0

    def add(
        self,
        name: object,
        at: Endpoint,
        *,
        advertised_ip: IpAddress | None = None,
        chain_id: int = CHAIN,
        allowed_networks: tuple[Subnet, ...] = LOOPBACK,
        peers_wanted: bool = True,
        learn_address: bool = False,
        advertises_ip: bool = True,
    ) -> SimulatedNode:
        """Add a node. Its record has its own address unless `advertised_ip` is another or `advertises_ip` is false."""
        settings = Discv5Settings(chain_id, allowed_networks, learn_address=learn_address)
        advertised = AdvertisedEndpoint(chain_id, (advertised_ip or at.ip) if advertises_ip else None, at.port, at.port)
        local = LocalEnr(secret_of(name), advertised, 1)
        node = SimulatedNode(Discv5Node(settings, secret_of(name), local, seeded(name)), at)
        node.node.peers_wanted = peers_wanted
        self.nodes[at] = node
        return node

    def add_many(self, count: int, *, boot: Iterable[SimulatedNode] = ()) -> list[SimulatedNode]:
        """Add nodes at 127.1.x.y with the bootnodes `boot`."""
        nodes = []
        for number in range(1, count + 1):
            node = self.add(number, endpoint(f"127.1.{number >> 8}.{number & 255}"))
            node.node.add_bootnodes(known.contact for known in boot)
            nodes.append(node)
        return nodes

    def run(self, seconds: float, until: Callable[[], bool] = lambda: False) -> float:
        """Run for a time, or until a condition holds; returns the seconds that took."""
        start = self.now
        while self.now < start + seconds and not until():
            self._step(start + seconds)
        return self.now - start

    def inject(self, sender: Endpoint, datagram: bytes, to: Endpoint) -> None:
        """Delivers a datagram as if from that sender."""
        self.nodes[to].node.receive_datagram(datagram, sender, self.now)
        self._collect(self.nodes[to])

    def _step(self, end: float) -> None:
        if self._in_flight and self._in_flight[0][0] <= self._next_tick:
            self.now, _, sender, sending = heapq.heappop(self._in_flight)
            self._deliver(sender, sending)
            return
        self.now = min(max(self._next_tick, self.now), end)
        self._next_tick = self.now + 0.1
        for node in list(self.nodes.values()):
            node.node.tick(self.now)
            self._collect(node)

    def _deliver(self, sender: Endpoint, sending: OutgoingPacket) -> None:
        node = self.nodes.get(sending.endpoint)
        if node is not None:
            node.node.receive_datagram(sending.datagram, sender, self.now)
            self._collect(node)

    def _collect(self, node: SimulatedNode) -> None:
        for output in node.node.take_outputs():
            if isinstance(output, ChainNodeFound):
                node.discovered.append(output)
            elif not isinstance(output, OutgoingPacket):
                node.others.append(output)
            else:
                node.sent += 1
                self.log.append((node.endpoint, output))
                filtered = self.filter(node.endpoint, output)
                if filtered is not None:
                    self._count += 1
                    heapq.heappush(self._in_flight, (self.now + DELAY, self._count, node.endpoint, filtered))
