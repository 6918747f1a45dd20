"""Trimming between the low and the high water mark."""

from rollup_node.stages.p2p.gating.connection_manager import SILENCE_PERIOD, ConnectionManager, TrimCandidate


def peers(count: int, connected_at: float = 0.0) -> list[TrimCandidate]:
    return [TrimCandidate(bytes([number]), connected_at + number, True, 2) for number in range(count)]


def manager(low: int = 3, high: int = 5, grace: float = 30.0) -> ConnectionManager:
    return ConnectionManager(low, high, grace)


def test_nothing_is_trimmed_up_to_the_high_water_mark() -> None:
    assert manager().peers_to_trim(peers(5), 1000.0) == []


def test_trimming_goes_down_to_the_low_water_mark_youngest_first() -> None:
    assert manager().peers_to_trim(peers(6), 1000.0) == [b"\x05", b"\x04", b"\x03"]


def test_new_and_protected_peers_stay() -> None:
    connections = manager()
    connections.protect(b"\x05", "static")
    connections.protect(b"\x05", "api-protected")
    connections.unprotect(b"\x05", "static")
    assert connections.is_protected(b"\x05") and not connections.is_protected(b"\x05", "static")
    assert connections.peers_to_trim(peers(7), 34.5) == [b"\x04", b"\x03"], "three of the other five stay"
    connections.unprotect(b"\x05", "api-protected")
    assert not connections.is_protected(b"\x05")


def test_new_peers_do_not_displace_old_ones() -> None:
    assert manager().peers_to_trim([*peers(3), *peers(60, connected_at=1000.0)[3:]], 1010.0) == []
    assert manager().peers_to_trim(peers(60, connected_at=1000.0), 1010.0) == []


def test_tagged_peers_are_trimmed_last() -> None:
    connections = manager()
    for number in (3, 4, 5):
        connections.tag(bytes([number]), "opstack-901-0", 42)
    connections.tag(b"\x04", "opstack-901-0", 0)
    outbound = [candidate._replace(inbound=candidate.peer == b"\x02") for candidate in peers(6)]
    assert connections.peers_to_trim(outbound, 1000.0) == [b"\x02", b"\x04", b"\x01"]
    connections.remove_tags(b"\x05")
    assert connections.peers_to_trim(peers(6), 2000.0)[0] == b"\x05"


def test_a_silence_period_follows_a_trim() -> None:
    connections = manager()
    assert connections.peers_to_trim(peers(6), 1000.0)
    assert connections.peers_to_trim(peers(6), 1000.0 + SILENCE_PERIOD - 1) == []
    assert connections.peers_to_trim(peers(6), 1000.0 + SILENCE_PERIOD)
