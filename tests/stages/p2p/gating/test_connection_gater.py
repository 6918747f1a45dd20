"""The connection gater: netrestrict, blocks, bans."""

from rollup_node.stages.p2p.addresses.ip import parse_ip, parse_subnet
from rollup_node.stages.p2p.gating.connection_gater import ConnectionGater
from rollup_node.stages.p2p.gating.peer_drops import PeerDropReason

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
        assert gater.ip_deny_reason(parse_ip(text), 0) is PeerDropReason.OUTSIDE_NETWORKS


def test_unblocking_a_peer_lifts_block_and_ban() -> None:
    gater = ConnectionGater(blocked_peers={PEER}, peer_bans={PEER: 10.0, OTHER: 10.0})
    assert gater.unblock_peer(PEER) and gater.peer_deny_reason(PEER, 0) is None
    assert not gater.unblock_peer(PEER) and gater.peer_deny_reason(OTHER, 0) is PeerDropReason.PEER_BANNED


def test_blocks_stay_and_bans_expire() -> None:
    gater = ConnectionGater()
    gater.blocked_peers.add(PEER)
    gater.blocked_ips.add(HERE)
    gater.blocked_subnets.add(parse_subnet("198.51.100.0/24"))
    assert gater.peer_deny_reason(PEER, 1e12) is PeerDropReason.PEER_BLOCKED
    assert gater.ip_deny_reason(HERE, 1e12) is PeerDropReason.ADDRESS_BLOCKED
    assert gater.ip_deny_reason(THERE, 1e12) is PeerDropReason.SUBNET_BLOCKED
    gater = ConnectionGater(peer_bans={PEER: 10.0, OTHER: 20.0}, ip_bans={HERE: 10.0})
    assert gater.peer_deny_reason(PEER, 9.9) is PeerDropReason.PEER_BANNED
    assert gater.ip_deny_reason(HERE, 9.9) is PeerDropReason.ADDRESS_BANNED
    assert gater.remove_expired_bans(9.9) == ([], [])
    assert gater.peer_deny_reason(PEER, 10.0) is None and gater.ip_deny_reason(HERE, 10.0) is None
    assert gater.remove_expired_bans(10.0) == ([PEER], [HERE])
    assert gater.peer_bans == {OTHER: 20.0} and gater.ip_bans == {}
