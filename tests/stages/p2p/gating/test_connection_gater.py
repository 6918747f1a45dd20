import pytest

from rollup_node.stages.p2p.addresses.ip import (
    IpAddressError,
    colocation_groups,
    is_plausible_ip,
    parse_ip,
    parse_subnet,
)
from rollup_node.stages.p2p.gating.connection_gater import ConnectionGater

PEER, OTHER = b"\x00\x01a", b"\x00\x01b"
HERE, THERE = parse_ip("192.0.2.1"), parse_ip("198.51.100.1")


def test_everyone_is_allowed_by_default() -> None:
    assert ConnectionGater().ip_deny_reason(HERE, 0) is None
    assert ConnectionGater().peer_deny_reason(PEER, 0) is None


def test_only_networks_of_netrestrict_are_allowed() -> None:
    gater = ConnectionGater((parse_subnet("127.0.0.0/8"), parse_subnet("fd00::/8")))
    assert gater.ip_deny_reason(parse_ip("127.1.2.3"), 0) is None
    assert gater.ip_deny_reason(parse_ip("fd00::1"), 0) is None
    for text in ("192.0.2.1", "::1", "128.0.0.1"):
        assert gater.ip_deny_reason(parse_ip(text), 0) == "outside p2p.netrestrict"


def test_unblocking_a_peer_lifts_block_and_ban() -> None:
    gater = ConnectionGater(blocked_peers={PEER}, peer_bans={PEER: 10.0, OTHER: 10.0})
    assert gater.unblock_peer(PEER) and gater.peer_deny_reason(PEER, 0) is None
    assert not gater.unblock_peer(PEER) and gater.peer_deny_reason(OTHER, 0) == "peer banned"


def test_addresses_of_one_host_count_together() -> None:
    assert colocation_groups("192.0.2.1") == colocation_groups("::ffff:192.0.2.1") == ("192.0.2.1",)
    assert colocation_groups("2001:db8:1:2:3::4") == ("2001:db8:1:2:3::4", "2001:db8:1:2::")


def test_blocks_stay_and_bans_expire() -> None:
    gater = ConnectionGater()
    gater.blocked_peers.add(PEER)
    gater.blocked_ips.add(HERE)
    gater.blocked_subnets.add(parse_subnet("198.51.100.0/24"))
    assert gater.peer_deny_reason(PEER, 1e12) == "peer blocked"
    assert gater.ip_deny_reason(HERE, 1e12) == "address blocked"
    assert gater.ip_deny_reason(THERE, 1e12) == "subnet blocked"
    gater = ConnectionGater(peer_bans={PEER: 10.0, OTHER: 20.0}, ip_bans={HERE: 10.0})
    assert gater.peer_deny_reason(PEER, 9.9) == "peer banned"
    assert gater.ip_deny_reason(HERE, 9.9) == "address banned"
    assert gater.remove_expired_bans(9.9) == ([], [])
    assert gater.peer_deny_reason(PEER, 10.0) is None and gater.ip_deny_reason(HERE, 10.0) is None
    assert gater.remove_expired_bans(10.0) == ([PEER], [HERE])
    assert gater.peer_bans == {OTHER: 20.0} and gater.ip_bans == {}


def test_ipv4_mapped_addresses_are_ipv4() -> None:
    assert parse_ip("::ffff:192.0.2.1") == HERE
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
    ("claimed", "seen", "believed"),
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
def test_plausible_addresses(claimed: str, seen: str, believed: bool) -> None:
    assert is_plausible_ip(parse_ip(claimed), parse_ip(seen)) is believed
