"""Who may connect: netrestrict, blocks, bans, limits per host; trimming; backoff of dials."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.p2p.addresses.ip import parse_ip, parse_subnet
from rollup_node.stages.p2p.gating.connections import (
    MAX_DELAY,
    MAX_PER_HOST,
    MAX_SAVED,
    SILENCE_PERIOD,
    TOTAL_SHARE,
    ConnectionGater,
    ConnectionManager,
    MemoryBudget,
    PeerBackoff,
    PendingHandshakes,
    TrimCandidate,
    WorkShares,
    is_over_host_limit,
)
from rollup_node.stages.p2p.gating.peer_drops import PeerDropReason

PEER, OTHER = b"\x00\x01a", b"\x00\x01b"
HERE, THERE = parse_ip("192.0.2.1"), parse_ip("198.51.100.1")


def test_only_networks_of_netrestrict_are_allowed() -> None:
    gater = ConnectionGater((parse_subnet("127.0.0.0/8"), parse_subnet("fd00::/8")))
    assert gater.ip_deny_reason(parse_ip("127.1.2.3")) is None
    assert gater.ip_deny_reason(parse_ip("fd00::1")) is None
    for text in ("192.0.2.1", "::1", "128.0.0.1"):
        assert gater.ip_deny_reason(parse_ip(text)) is PeerDropReason.OUTSIDE_NETWORKS


def test_blocks_stay_and_bans_expire() -> None:
    gater = ConnectionGater()
    gater.blocked_peers.add(PEER)
    gater.blocked_ips.add(HERE)
    gater.blocked_subnets.add(parse_subnet("198.51.100.0/24"))
    assert gater.peer_deny_reason(PEER, 1e12) is PeerDropReason.PEER_BLOCKED
    assert gater.ip_deny_reason(HERE) is PeerDropReason.ADDRESS_BLOCKED
    assert gater.ip_deny_reason(THERE) is PeerDropReason.SUBNET_BLOCKED
    gater = ConnectionGater(peer_bans={PEER: 10.0, OTHER: 20.0})
    assert gater.peer_deny_reason(PEER, 9.9) is PeerDropReason.PEER_BANNED
    assert gater.remove_expired_bans(9.9) == 0
    assert gater.peer_deny_reason(PEER, 10.0) is None
    assert gater.remove_expired_bans(10.0) == 1
    assert gater.peer_bans == {OTHER: 20.0}


def test_the_oldest_handshake_of_the_most_crowded_address_is_evicted() -> None:
    pending: PendingHandshakes[str] = PendingHandshakes(4)
    for name, ip in [("a", "1"), ("b", "2"), ("c", "2"), ("d", "3")]:
        assert pending.add(name, ip) is None
    assert pending.add("e", "4") == "b"
    assert len(pending) == 4
    pending.remove("c")
    pending.remove("c")
    assert pending.add("f", "4") is None
    assert pending.add("g", "5") == "e"
    assert list(pending) == ["a", "d", "f", "g"]
    assert sorted(pending.drain()) == ["a", "d", "f", "g"]
    assert len(pending) == 0


def test_one_host_has_few_connections() -> None:
    connected = ["192.0.2.1", "2001:db8::1"] * (MAX_PER_HOST - 1) + ["::ffff:192.0.2.1", "2001:db8::9"]
    assert is_over_host_limit("192.0.2.1", connected) and not is_over_host_limit("192.0.2.1", connected[:-2])
    assert is_over_host_limit("2001:db8::2", connected) and not is_over_host_limit("2001:db8:0:1::1", connected)
    assert not is_over_host_limit("192.0.2.2", connected)
    assert not is_over_host_limit("127.0.0.1", ["127.0.0.1"] * 100), "our own machine"


def peers(count: int, connected_at: float = 0.0) -> list[TrimCandidate]:
    return [TrimCandidate(bytes([number]), connected_at + number, True, 2) for number in range(count)]


def manager(low: int = 3, high: int = 5, grace: float = 30.0) -> ConnectionManager:
    return ConnectionManager(low, high, grace)


def test_new_and_protected_peers_stay() -> None:
    connections = manager()
    connections.protect(b"\x05", "static")
    connections.protect(b"\x05", "api-protected")
    connections.unprotect(b"\x05", "static")
    assert connections.is_protected(b"\x05")
    assert connections.peers_to_trim(peers(7), 34.5) == [b"\x04", b"\x03"], "three of the other five stay"
    connections.unprotect(b"\x05", "api-protected")
    assert not connections.is_protected(b"\x05")


def test_preferred_peers_are_trimmed_last() -> None:
    connections = manager()
    connections.preferred |= {b"\x03", b"\x05"}
    outbound = [candidate._replace(inbound=candidate.peer == b"\x02") for candidate in peers(6)]
    assert connections.peers_to_trim(outbound, 1000.0) == [b"\x02", b"\x04", b"\x01"]


def test_a_silence_period_follows_a_trim() -> None:
    connections = manager()
    assert connections.peers_to_trim(peers(6), 1000.0)
    assert connections.peers_to_trim(peers(6), 1000.0 + SILENCE_PERIOD - 1) == []
    assert connections.peers_to_trim(peers(6), 1000.0 + SILENCE_PERIOD)


def test_the_number_of_peers_is_bounded() -> None:
    backoff = PeerBackoff()
    for number in range(10_050):
        backoff.failed(str(number).encode(), 0.0)
    assert backoff.retry_at(b"49") == 0.0 and backoff.retry_at(b"50") == 1.0


HONEST, LOUD = b"honest", b"loud"


def test_the_oldest_of_those_above_their_share_is_dropped() -> None:
    budget: MemoryBudget[str] = MemoryBudget(100)
    budget.add("honest", HONEST, 25)
    for number in range(3):
        budget.add(f"loud {number}", b"loud%d" % number, 27)
    assert budget.total == 106 and budget.next_dropped() == "loud 0", "the older one holds just its share"
    budget.add("loud 0", b"loud0", -27)
    assert budget.next_dropped() is None and budget.peer_bytes(b"loud0") == 0


def test_progress_makes_a_holder_new() -> None:
    budget: MemoryBudget[str] = MemoryBudget(100)
    budget.add("reading", HONEST, 60)
    budget.add("stalled", LOUD, 60)
    assert budget.next_dropped() == "reading"
    budget.add("reading", HONEST, -5)
    assert budget.next_dropped() == "stalled"


@pytest.mark.condition("C9")
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3), st.integers(-60, 60)), max_size=60))
def test_dropping_keeps_the_budget_and_spares_small_peers(changes: list[tuple[int, int, int]]) -> None:
    budget: MemoryBudget[tuple[int, int]] = MemoryBudget(100)
    held: dict[tuple[int, int], int] = {}
    for holder, peer, change in changes:
        budget.add((holder, peer), bytes([peer]), change)
        held[holder, peer] = max(0, held.get((holder, peer), 0) + change)
        while (dropped := budget.next_dropped()) is not None:
            holding = {item for (_, item), count in held.items() if count}
            of_peer = sum(count for (_, item), count in held.items() if item == dropped[1])
            assert of_peer > 100 // len(holding) and held[dropped]
            budget.add(dropped, bytes([dropped[1]]), -held.pop(dropped))
        assert budget.total == sum(held.values()) <= 100


def test_a_peer_alone_may_use_the_total() -> None:
    shares = WorkShares()
    for step in range(100):
        assert shares.charge(LOUD, 0.1 * TOTAL_SHARE, step / 10) == 0.0


def test_beyond_the_total_only_peers_above_their_share_wait() -> None:
    shares = WorkShares()
    delays = [shares.charge(bytes([number]), 0.02, number / 1000) for number in range(60)]
    assert delays[:5] == [0.0] * 5
    for number in range(60):
        shares.charge(bytes([number]), 0.2, 0.1)
    assert shares.charge(bytes([7]), 0.01, 0.1) == MAX_DELAY
    assert shares.charge(HONEST, 0.01, 0.1) == 0.0, "a peer within its share is not slowed down"


def test_debt_is_repaid_at_the_rate_of_a_share() -> None:
    shares = WorkShares()
    assert shares.charge(LOUD, MAX_SAVED + 0.1, 0.0) == pytest.approx(0.1 / TOTAL_SHARE)
    assert shares.charge(LOUD, 0.0, 0.1) == pytest.approx(0.1 / TOTAL_SHARE - 0.1)
    assert shares.charge(LOUD, 0.0, 0.3) == 0.0
