"""Peer information for `opp2p_*`; the fields have the JSON names of op-node [RPC78 to RPC80]."""

import ipaddress
from base64 import b64encode
from collections.abc import Iterable, Sequence
from contextlib import suppress

import msgspec

from rollup_node.stages.p2p.addresses.ip import Subnet
from rollup_node.stages.p2p.addresses.multiaddr import Multiaddr, MultiaddrError, parse_multiaddr
from rollup_node.stages.p2p.addresses.peer_id import SECP256K1, PeerId, extract_public_key, node_id, peer_id_text
from rollup_node.stages.p2p.storage.peer_record import PeerScores


class PeerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One peer, with numbers of go-libp2p; `latency` is in nanoseconds, 0 when it was not measured [RPC78]."""

    peerID: str
    nodeID: str
    userAgent: str
    protocolVersion: str
    ENR: str
    addresses: tuple[str, ...] | None
    protocols: tuple[str, ...] | None
    connectedness: int = 0
    direction: int = 0
    protected: bool = False
    chainID: int
    latency: int = 0
    gossipBlocks: bool = True
    scores: PeerScores = PeerScores()


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


def full_addresses(peer: PeerId, addresses: Iterable[Multiaddr]) -> tuple[str, ...] | None:
    """Return the texts of a peer's addresses, each with the peer id at its end; None when there are none."""
    return tuple(str(address.with_peer_id(peer)) for address in dict.fromkeys(addresses)) or None


def node_id_text(peer: PeerId) -> str:
    """Return the peer's discv5 node id in hex; zeros when its key is not secp256k1 or not embedded in the peer id."""
    key = extract_public_key(peer)
    with suppress(ValueError):
        if key is not None and key.kind == SECP256K1:
            return node_id(key.data).hex()
    return bytes(32).hex()


def sorted_peers(peers: Iterable[PeerId]) -> tuple[str, ...]:
    return tuple(sorted(map(peer_id_text, peers)))


def sorted_ips(ips: Iterable[ipaddress.IPv4Address | ipaddress.IPv6Address]) -> tuple[str, ...]:
    """Return the texts of IP addresses."""
    return tuple(str(ip) for ip in sorted(ips, key=lambda ip: (ip.version, int(ip))))


def sorted_nets(subnets: Iterable[Subnet]) -> tuple[IpNet, ...]:
    """Return the JSON forms of networks."""
    ordered = sorted(subnets, key=lambda net: (net.version, int(net.network_address), net.prefixlen))
    return tuple(IpNet(str(net.network_address), b64encode(net.netmask.packed).decode()) for net in ordered)


class StaticPeerError(Exception):
    """An entry of `p2p.static` is invalid."""


def parse_static_peers(texts: Sequence[str], own: PeerId) -> dict[PeerId, list[Multiaddr]]:
    """Return the addresses of each static peer, without our own [NET9]. Raises StaticPeerError for an invalid entry."""
    static_peers: dict[PeerId, list[Multiaddr]] = {}
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
            static_peers.setdefault(address.peer_id, []).append(address.without_peer_id)
    return static_peers


class ClosedConnectionInfo(msgspec.Struct, frozen=True):
    """A connection that has ended: the reason, and its duration in seconds."""

    peer: str
    why: str
    lasted: float


class DiscoveryDiagnosis(msgspec.Struct, frozen=True):
    """Discovery: our record and its endpoint, the table's numbers of nodes, dropped datagrams by reason."""

    record: str
    endpoint: str
    ip: str | None
    tcp: int
    udp: int
    nodes: dict[str, int]
    drops: dict[str, int]


class GossipDiagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """Gossip: the current topic, the peers on and in the mesh of each, and what came of blocks since the start.

    Own blocks go to all peers below a mesh size. Blocks of peers are accepted (`accepted_ago`: seconds since the
    last) or not (`refused`, by failure). The unsafe block signers are those on L1 and of our key."""

    topic: str
    topics: dict[str, int]
    meshes: dict[str, int]
    low: int
    accepted: int
    accepted_ago: float | None
    refused: dict[str, int]
    published: int
    signer: str | None
    own_signer: str | None


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """All of it.

    `inbound_ever` counts inbound connections from other machines since the start, `observed` our addresses as peers
    see them; `bans` has the seconds left of each ban."""

    peer: str
    chain_id: int
    listens: tuple[str, ...]
    is_listening: bool
    low: int
    high: int
    inbound: int
    outbound: int
    inbound_ever: int
    observed: dict[str, int]
    known: int
    dialable: int
    static_missing: tuple[str, ...]
    dial_problems: dict[str, str]
    bans: dict[str, float]
    blocked: int
    departed: tuple[ClosedConnectionInfo, ...]
    discovery: DiscoveryDiagnosis | None
    gossip: GossipDiagnosis
    problems: tuple[str, ...]
