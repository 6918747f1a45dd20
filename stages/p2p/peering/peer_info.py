"""Peer information for `opp2p_*`; the fields have the JSON names of op-node [RPC78 to RPC80]."""

import ipaddress
from base64 import b64encode
from collections.abc import Iterable, Sequence
from enum import IntEnum

import msgspec

from rollup_node.stages.p2p.addresses.ip import Subnet
from rollup_node.stages.p2p.addresses.multiaddr import Multiaddr, MultiaddrError, parse_multiaddr
from rollup_node.stages.p2p.identity.peer_id import IdentityError, PeerId, extract_public_key, node_id, peer_id_text
from rollup_node.stages.p2p.storage.peer_record import PeerScores


class Connectedness(IntEnum):
    """Whether a peer is connected, as go-libp2p numbers it."""

    NOT_CONNECTED = 0
    CONNECTED = 1


class PeerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One peer [RPC78].

    `latency` is in nanoseconds, 0 when it was not measured; `connectedness` and `direction` are numbers of
    go-libp2p."""

    peerID: str
    nodeID: str
    userAgent: str
    protocolVersion: str
    ENR: str
    addresses: tuple[str, ...] | None
    protocols: tuple[str, ...] | None
    connectedness: Connectedness
    direction: int
    protected: bool
    chainID: int
    latency: int
    gossipBlocks: bool
    scores: PeerScores


class PeerDump(msgspec.Struct, frozen=True, kw_only=True):
    """All peers by peer id [RPC80]."""

    totalConnected: int
    peers: dict[str, PeerInfo]
    bannedPeers: tuple[str, ...]
    bannedIPS: tuple[str, ...]
    bannedSubnets: tuple["IpNet", ...]


class PeerStats(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers of peers: connected, in discovery's table, on each block topic, banned or blocked, and known."""

    connected: int
    table: int
    blocksTopic: int
    blocksTopicV2: int
    blocksTopicV3: int
    blocksTopicV4: int
    banned: int
    known: int


class IpNet(msgspec.Struct, frozen=True):
    """A network with its mask in base64, as Go encodes net.IPNet [RPC76]."""

    IP: str
    Mask: str


def ip_net(subnet: Subnet) -> IpNet:
    """Return the JSON form of a network."""
    return IpNet(str(subnet.network_address), b64encode(subnet.netmask.packed).decode())


def full_addresses(peer: PeerId, addresses: Iterable[Multiaddr]) -> tuple[str, ...] | None:
    """Return the texts of a peer's addresses, each with the peer id at its end; None when there are none."""
    return tuple(str(address.with_peer_id(peer)) for address in dict.fromkeys(addresses)) or None


def node_id_text(peer: PeerId) -> str:
    """Return the peer's discv5 node id in hex; zeros when its key is not secp256k1 or not embedded in the peer id."""
    try:
        key = extract_public_key(peer)
        found = None if key is None else node_id(key)
    except IdentityError:
        found = None
    return (found or bytes(32)).hex()


def sorted_peers(peers: Iterable[PeerId]) -> tuple[str, ...]:
    """Return the texts of peer ids."""
    return tuple(sorted(map(peer_id_text, peers)))


def sorted_ips(ips: Iterable[ipaddress.IPv4Address | ipaddress.IPv6Address]) -> tuple[str, ...]:
    """Return the texts of IP addresses."""
    return tuple(str(ip) for ip in sorted(ips, key=lambda ip: (ip.version, int(ip))))


def sorted_nets(subnets: Iterable[Subnet]) -> tuple[IpNet, ...]:
    """Return the JSON forms of networks."""
    ordered = sorted(subnets, key=lambda net: (net.version, int(net.network_address), net.prefixlen))
    return tuple(map(ip_net, ordered))


class StaticPeerError(Exception):
    """An entry of `p2p.static` is invalid."""


def parse_static_peers(texts: Sequence[str], own: PeerId) -> dict[PeerId, list[Multiaddr]]:
    """Return the addresses of each static peer, without our own [NET9]. Raises StaticPeerError for an invalid entry."""
    found: dict[PeerId, list[Multiaddr]] = {}
    for text in filter(None, map(str.strip, texts)):
        try:
            address = parse_multiaddr(text)
        except MultiaddrError as error:
            raise StaticPeerError(f"{error} (p2p.static)") from None
        if address.peer_id is None or address.tcp is None:
            raise StaticPeerError(
                f"{text} lacks address, TCP port or peer id, as in /ip4/192.0.2.1/tcp/9222/p2p/16Uiu2HA... (p2p.static)"
            )
        if address.peer_id != own:
            found.setdefault(address.peer_id, []).append(address.without_peer_id)
    return found
