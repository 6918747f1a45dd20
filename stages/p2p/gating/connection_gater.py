"""The connection gater: denies connections by `p2p.netrestrict`, blocks, and bans in Unix time [NET12, NET13]."""

from dataclasses import dataclass, field

from rollup_node.stages.p2p.addresses.ip import IpAddress, Subnet, is_within
from rollup_node.stages.p2p.gating.peer_drops import PeerDropReason
from rollup_node.stages.p2p.identity.peer_id import PeerId


@dataclass
class ConnectionGater:
    """All blocks and bans. Empty `allowed_networks` allow any network."""

    allowed_networks: tuple[Subnet, ...] = ()
    blocked_peers: set[PeerId] = field(default_factory=set)
    blocked_ips: set[IpAddress] = field(default_factory=set)
    blocked_subnets: set[Subnet] = field(default_factory=set)
    peer_bans: dict[PeerId, float] = field(default_factory=dict)
    ip_bans: dict[IpAddress, float] = field(default_factory=dict)

    def ip_deny_reason(self, ip: IpAddress, now: float) -> PeerDropReason | None:
        """Return the reason why connections with the address are denied, None when they are allowed."""
        if self.allowed_networks and not is_within(ip, self.allowed_networks):
            return PeerDropReason.OUTSIDE_NETWORKS
        if ip in self.blocked_ips:
            return PeerDropReason.ADDRESS_BLOCKED
        if is_within(ip, self.blocked_subnets):
            return PeerDropReason.SUBNET_BLOCKED
        return PeerDropReason.ADDRESS_BANNED if self.ip_bans.get(ip, 0.0) > now else None

    def peer_deny_reason(self, peer: PeerId, now: float) -> PeerDropReason | None:
        """Return the reason why connections with the peer are denied, None when they are allowed."""
        if peer in self.blocked_peers:
            return PeerDropReason.PEER_BLOCKED
        return PeerDropReason.PEER_BANNED if self.peer_bans.get(peer, 0.0) > now else None

    def unblock_peer(self, peer: PeerId) -> bool:
        """Remove the block and the ban of a peer; returns whether it was banned."""
        self.blocked_peers.discard(peer)
        return self.peer_bans.pop(peer, None) is not None

    def remove_expired_bans(self, now: float) -> tuple[list[PeerId], list[IpAddress]]:
        """Remove expired bans; returns the peers and addresses whose bans they were [SCR8]."""
        peers = [peer for peer, until in self.peer_bans.items() if until <= now]
        ips = [ip for ip, until in self.ip_bans.items() if until <= now]
        for peer in peers:
            del self.peer_bans[peer]
        for ip in ips:
            del self.ip_bans[ip]
        return peers, ips
