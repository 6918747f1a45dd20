"""Whom we neither dial nor let in: networks outside `p2p.netrestrict`, what operators blocked for good (peers,
addresses, subnets), and bans of peers and addresses that end by themselves. Times are Unix seconds, because bans
outlive the process. Every refusal is a reason in words."""

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache

from rollup_node.stages.p2p.identity.peer_id import PeerId

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
Subnet = ipaddress.IPv4Network | ipaddress.IPv6Network


class GaterError(ValueError):
    """Not an IP address or network."""


def parse_ip(text: str) -> IpAddress:
    """Reads an address; an IPv4 address within IPv6 counts as IPv4, a zone is left out."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        raise GaterError(f"{text[:60]!r} is not an IP address") from None
    return address.ipv4_mapped or address if isinstance(address, ipaddress.IPv6Address) else address


@lru_cache(1024)
def ip_groups(text: str) -> tuple[str, ...]:
    """Whom an address counts with: itself and, for IPv6, the first of the 64 bits that one host has to itself."""
    ip = parse_ip(text)
    if ip.version == 4:
        return (str(ip),)
    return str(ip), str(ipaddress.IPv6Network((int(ip), 64), strict=False).network_address)


def parse_subnet(text: str) -> Subnet:
    """Reads a network such as 10.0.0.0/8."""
    try:
        return ipaddress.ip_network(text.strip(), strict=False)
    except ValueError:
        raise GaterError(f"{text[:60]!r} is not a network such as 10.0.0.0/8") from None


@dataclass
class Gater:
    """The state of all blocks and bans. `restricted_to` empty: any network."""

    restricted_to: tuple[Subnet, ...] = ()
    blocked_peers: set[PeerId] = field(default_factory=set)
    blocked_ips: set[IpAddress] = field(default_factory=set)
    blocked_subnets: set[Subnet] = field(default_factory=set)
    peer_bans: dict[PeerId, float] = field(default_factory=dict)
    ip_bans: dict[IpAddress, float] = field(default_factory=dict)

    def refuses_ip(self, ip: IpAddress, now: float) -> str | None:
        """Why there may be no connection with this address; None if there may."""
        if self.restricted_to and not _within(ip, self.restricted_to):
            return "outside p2p.netrestrict"
        if ip in self.blocked_ips:
            return "address blocked"
        if _within(ip, self.blocked_subnets):
            return "subnet blocked"
        return "address banned" if self.ip_bans.get(ip, 0.0) > now else None

    def refuses_peer(self, peer: PeerId, now: float) -> str | None:
        """Why there may be no connection with this peer; None if there may."""
        if peer in self.blocked_peers:
            return "peer blocked"
        return "peer banned" if self.peer_bans.get(peer, 0.0) > now else None

    def let_in(self, peer: PeerId) -> bool:
        """Lifts block and ban of a peer; whether it was banned."""
        self.blocked_peers.discard(peer)
        return self.peer_bans.pop(peer, None) is not None

    def expired(self, now: float) -> tuple[list[PeerId], list[IpAddress]]:
        """Takes out the bans that are over, and says whose they were."""
        peers = [peer for peer, until in self.peer_bans.items() if until <= now]
        ips = [ip for ip, until in self.ip_bans.items() if until <= now]
        for peer in peers:
            del self.peer_bans[peer]
        for ip in ips:
            del self.ip_bans[ip]
        return peers, ips


def is_believable(claimed: IpAddress, seen: IpAddress) -> bool:
    """Whether a peer seen at one address may have us dial it at another: not at our own machine or in our own network
    unless that is where it came from."""
    if claimed.is_unspecified or claimed.is_multicast or claimed.is_link_local:
        return False
    if claimed.is_loopback:
        return seen.is_loopback
    return not claimed.is_private or seen.is_private


def _within(ip: IpAddress, networks: Iterable[Subnet]) -> bool:
    return any(ip.version == network.version and ip in network for network in networks)
