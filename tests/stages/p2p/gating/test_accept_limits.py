"""Limits of pending handshakes and of connections per host."""

from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.p2p.gating.accept_limits import MAX_PER_HOST, PendingHandshakes, is_over_host_limit


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


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 20), st.sampled_from("123")), max_size=80))
def test_the_number_of_pending_handshakes_is_bounded(steps: list[tuple[bool, int, str]]) -> None:
    pending: PendingHandshakes[int] = PendingHandshakes(5)
    expected: set[int] = set()
    for is_added, name, ip in steps:
        if is_added and name not in expected:
            expected.discard(-1 if (evicted := pending.add(name, ip)) is None else evicted)
            expected.add(name)
        elif not is_added:
            pending.remove(name)
            expected.discard(name)
        assert len(pending) == len(expected) <= 5
    assert set(pending.drain()) == expected


def test_one_host_has_few_connections() -> None:
    connected = ["192.0.2.1", "2001:db8::1"] * (MAX_PER_HOST - 1) + ["::ffff:192.0.2.1", "2001:db8::9"]
    assert is_over_host_limit("192.0.2.1", connected) and not is_over_host_limit("192.0.2.1", connected[:-2])
    assert is_over_host_limit("2001:db8::2", connected) and not is_over_host_limit("2001:db8:0:1::1", connected)
    assert not is_over_host_limit("192.0.2.2", connected)
    assert not is_over_host_limit("127.0.0.1", ["127.0.0.1"] * 100), "our own machine"
