"""IP addresses and networks: parsing, and the prefixes by which limits count them."""

import ipaddress
from collections.abc import Iterable
from functools import lru_cache

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
Subnet = ipaddress.IPv4Network | ipaddress.IPv6Network


class IpAddressError(ValueError):
    """Not an IP address or network."""


def parse_ip(text: str) -> IpAddress:
    """Parse an address without its zone; an IPv4-mapped IPv6 address becomes IPv4. Raises IpAddressError."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        raise IpAddressError(f"{text[:60]!r} is not an IP address") from None
    return address.ipv4_mapped or address if isinstance(address, ipaddress.IPv6Address) else address


def parse_subnet(text: str) -> Subnet:
    """Parse a network such as 10.0.0.0/8; host bits are ignored. Raises IpAddressError."""
    try:
        return ipaddress.ip_network(text.strip(), strict=False)
    except ValueError:
        raise IpAddressError(f"{text[:60]!r} is not a network such as 10.0.0.0/8") from None


def is_within(ip: IpAddress, networks: Iterable[Subnet]) -> bool:
    return any(ip in network for network in networks)


def is_plausible_ip(claimed: IpAddress, sender: IpAddress) -> bool:
    """Whether an address that a peer at `sender` names is worth dialling, as go-ethereum's CheckRelayIP has it."""
    if claimed.is_unspecified or claimed.is_multicast or claimed.is_link_local:
        return False
    if claimed.is_loopback:
        return sender.is_loopback
    return not claimed.is_private or sender.is_private


@lru_cache(1024)
def colocation_groups(text: str) -> tuple[str, ...]:
    """Return the groups that count as one place: the address and, for IPv6, its /64, which one host has to itself."""
    ip = parse_ip(text)
    if ip.version == 4:
        return (str(ip),)
    return str(ip), str(ipaddress.IPv6Network((int(ip), 64), strict=False).network_address)


def host_prefix(ip: IpAddress) -> bytes:
    """Return the prefix by which one host's traffic is limited: the IPv4 address, or the IPv6 /64."""
    return ip.packed if ip.version == 4 else ip.packed[:8]


def network_prefix(ip: IpAddress) -> bytes | None:
    """Return the IPv4 /24 or IPv6 /48, of which few nodes are trusted; None on local networks."""
    if ip.is_loopback or ip.is_private or ip.is_link_local:
        return None
    return ip.packed[:3] if isinstance(ip, ipaddress.IPv4Address) else ip.packed[:6]
