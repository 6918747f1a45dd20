"""IP addresses and networks: parsing, prefixes, plausibility."""

import pytest

from rollup_node.stages.p2p.addresses.ip import (
    IpAddressError,
    host_prefix,
    is_plausible_ip,
    network_prefix,
    parse_ip,
    parse_subnet,
)


def test_ipv4_mapped_addresses_are_ipv4() -> None:
    assert parse_ip("::ffff:192.0.2.1") == parse_ip("192.0.2.1")
    assert parse_ip("fe80::1%eth0") == parse_ip("fe80::1")


@pytest.mark.parametrize("text", ["", "localhost", "1.2.3", "1.2.3.4/8"])
def test_malformed_addresses_are_rejected(text: str) -> None:
    with pytest.raises(IpAddressError):
        parse_ip(text)


@pytest.mark.parametrize("text", ["", "x/8", "1.2.3.4/33"])
def test_malformed_networks_are_rejected(text: str) -> None:
    with pytest.raises(IpAddressError):
        parse_subnet(text)


@pytest.mark.parametrize(
    ("claimed", "sender", "plausible"),
    [
        ("203.0.114.1", "203.0.114.9", True),
        ("203.0.114.1", "127.0.0.1", True),
        ("127.0.0.1", "203.0.114.9", False),
        ("127.0.0.1", "127.0.0.1", True),
        ("10.0.0.1", "203.0.114.9", False),
        ("10.0.0.1", "192.168.0.1", True),
        ("10.0.0.1", "127.0.0.1", True),
        ("0.0.0.0", "127.0.0.1", False),
        ("224.0.0.1", "127.0.0.1", False),
        ("169.254.169.254", "10.0.0.1", False),
        ("::1", "2001:4860::1", False),
    ],
)
def test_plausible_addresses(claimed: str, sender: str, plausible: bool) -> None:
    assert is_plausible_ip(parse_ip(claimed), parse_ip(sender)) is plausible


@pytest.mark.parametrize(
    ("one", "other", "same_host", "same_network"),
    [
        ("8.8.8.8", "8.8.8.8", True, True),
        ("8.8.8.8", "8.8.8.9", False, True),
        ("8.8.8.8", "8.8.9.8", False, False),
        ("2a00:1::1", "2a00:1::2", True, True),
        ("2a00:1:0:1::1", "2a00:1:0:2::1", False, True),
        ("2a00:1:1::1", "2a00:1:2::1", False, False),
    ],
)
def test_prefixes(one: str, other: str, same_host: bool, same_network: bool) -> None:
    assert (host_prefix(parse_ip(one)) == host_prefix(parse_ip(other))) == same_host
    assert (network_prefix(parse_ip(one)) == network_prefix(parse_ip(other))) == same_network


@pytest.mark.parametrize("ip", ["127.0.0.1", "10.1.2.3", "192.168.0.1", "::1", "fe80::1", "fd00::1"])
def test_local_networks_have_no_network_prefix(ip: str) -> None:
    assert network_prefix(parse_ip(ip)) is None
