"""What `opp2p_*` tells of a peer and of all (node-behaviour 1.8), as values whose JSON has op-node's names."""

import ipaddress
from base64 import b64encode
from collections.abc import Iterable

import msgspec

from rollup_node.stages.p2p.addresses.ip import Subnet
from rollup_node.stages.p2p.addresses.multiaddr import Multiaddr
from rollup_node.stages.p2p.identity.peer_id import IdentityError, PeerId, extract_public_key, node_id, peer_id_text
from rollup_node.stages.p2p.peerstore.peer_record import PeerScores

NOT_CONNECTED, CONNECTED = 0, 1
UNKNOWN_DIRECTION = 0


class PeerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One peer. `latency` in nanoseconds, 0 where it was not measured; `direction` as in hosting.Direction."""

    peerID: str
    nodeID: str
    userAgent: str
    protocolVersion: str
    ENR: str
    addresses: tuple[str, ...] | None
    protocols: tuple[str, ...] | None
    connectedness: int
    direction: int
    protected: bool
    chainID: int
    latency: int
    gossipBlocks: bool
    scores: PeerScores


class PeerDump(msgspec.Struct, frozen=True, kw_only=True):
    """All peers, by their id's text."""

    totalConnected: int
    peers: dict[str, PeerInfo]
    bannedPeers: tuple[str, ...]
    bannedIPS: tuple[str, ...]
    bannedSubnets: tuple["IpNet", ...]


class PeerStats(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of peers: connected, in discovery's table, on each topic of blocks, kept out, and known at all."""

    connected: int
    table: int
    blocksTopic: int
    blocksTopicV2: int
    blocksTopicV3: int
    blocksTopicV4: int
    banned: int
    known: int


class IpNet(msgspec.Struct, frozen=True):
    """A network with its mask in base64."""

    IP: str
    Mask: str


def ip_net(subnet: Subnet) -> IpNet:
    """The form of a network."""
    return IpNet(str(subnet.network_address), b64encode(subnet.netmask.packed).decode())


def full_addresses(peer: PeerId, addresses: Iterable[Multiaddr]) -> tuple[str, ...] | None:
    """The texts of a peer's addresses, each with the peer id at its end; None if there are none."""
    return tuple(str(address.with_peer_id(peer)) for address in dict.fromkeys(addresses)) or None


def node_id_text(peer: PeerId) -> str:
    """The peer's id in discovery, in hex; of zeros where its key is of another kind or not in its peer id."""
    try:
        key = extract_public_key(peer)
        found = None if key is None else node_id(key)
    except IdentityError:
        found = None
    return (found or bytes(32)).hex()


def sorted_peers(peers: Iterable[PeerId]) -> tuple[str, ...]:
    """The texts of peer ids."""
    return tuple(sorted(map(peer_id_text, peers)))


def sorted_ips(ips: Iterable[ipaddress.IPv4Address | ipaddress.IPv6Address]) -> tuple[str, ...]:
    """The texts of addresses."""
    return tuple(str(ip) for ip in sorted(ips, key=lambda ip: (ip.version, int(ip))))


def sorted_nets(subnets: Iterable[Subnet]) -> tuple[IpNet, ...]:
    """The forms of networks."""
    ordered = sorted(subnets, key=lambda net: (net.version, int(net.network_address), net.prefixlen))
    return tuple(map(ip_net, ordered))
