"""Distances and groups of addresses."""

import pytest

from rollup_node.stages.p2p.addresses.ip import host_prefix, is_within, network_prefix, parse_ip, parse_subnet
from rollup_node.stages.p2p.discv5.contact import Endpoint, log_distance, xor_distance


def test_distances() -> None:
    zero, one, top = bytes(32), bytes(31) + b"\1", b"\x80" + bytes(31)
    assert [log_distance(zero, other) for other in (zero, one, top)] == [0, 1, 256]
    assert xor_distance(one, top) == (1 << 255) + 1
    assert log_distance(one, top) == log_distance(top, one)


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


def test_is_within() -> None:
    networks = [parse_subnet("127.0.0.0/8"), parse_subnet("::1/128")]
    assert is_within(parse_ip("127.5.5.5"), networks) and is_within(parse_ip("::1"), networks)
    assert not is_within(parse_ip("8.8.8.8"), networks) and not is_within(parse_ip("8.8.8.8"), [])


def test_endpoints_as_text() -> None:
    assert str(Endpoint(parse_ip("127.0.0.1"), 5)) == "127.0.0.1:5"
    assert str(Endpoint(parse_ip("::1"), 5)) == "[::1]:5"
