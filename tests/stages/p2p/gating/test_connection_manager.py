from rollup_node.stages.p2p.gating.connection_manager import SILENCE_PERIOD, ConnectionManager, TrimCandidate


def peers(count: int, since: float = 0.0) -> list[TrimCandidate]:
    return [TrimCandidate(bytes([number]), since + number, True, 2) for number in range(count)]


def manager(low: int = 3, high: int = 5, grace: float = 30.0) -> ConnectionManager:
    return ConnectionManager(low, high, grace)


def test_nothing_is_trimmed_up_to_the_high_water_mark() -> None:
    assert manager().peers_to_trim(peers(5), 1000.0) == []


def test_trimming_goes_down_to_the_low_water_mark_youngest_first() -> None:
    assert manager().peers_to_trim(peers(6), 1000.0) == [b"\x05", b"\x04", b"\x03"]


def test_new_and_protected_peers_stay() -> None:
    found = manager()
    found.protect(b"\x05", "static")
    found.protect(b"\x05", "api-protected")
    found.unprotect(b"\x05", "static")
    assert found.is_protected(b"\x05") and not found.is_protected(b"\x05", "static")
    assert found.peers_to_trim(peers(7), 34.5) == [b"\x04", b"\x03"], "of five that are neither, the low tide stays"
    found.unprotect(b"\x05", "api-protected")
    assert not found.is_protected(b"\x05")


def test_new_peers_do_not_displace_old_ones() -> None:
    assert manager().peers_to_trim([*peers(3), *peers(60, since=1000.0)[3:]], 1010.0) == []
    assert manager().peers_to_trim(peers(60, since=1000.0), 1010.0) == []


def test_tagged_peers_are_trimmed_last() -> None:
    found = manager()
    for number in (3, 4, 5):
        found.tag(bytes([number]), "opstack-901-0", 42)
    found.tag(b"\x04", "opstack-901-0", 0)
    outbound = [candidate._replace(inbound=candidate.peer == b"\x02") for candidate in peers(6)]
    assert found.peers_to_trim(outbound, 1000.0) == [b"\x02", b"\x04", b"\x01"]
    found.remove_tags(b"\x05")
    assert found.peers_to_trim(peers(6), 2000.0)[0] == b"\x05"


def test_a_silence_period_follows_a_trim() -> None:
    found = manager()
    assert found.peers_to_trim(peers(6), 1000.0)
    assert found.peers_to_trim(peers(6), 1000.0 + SILENCE_PERIOD - 1) == []
    assert found.peers_to_trim(peers(6), 1000.0 + SILENCE_PERIOD)
