from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.p2p.gating.accept_limits import MAX_PER_HOST, PendingHandshakes, is_over_host_limit


def test_the_oldest_handshake_of_the_most_crowded_address_is_evicted() -> None:
    waiting: PendingHandshakes[str] = PendingHandshakes(4)
    for name, ip in [("a", "1"), ("b", "2"), ("c", "2"), ("d", "3")]:
        assert waiting.add(name, ip) is None
    assert waiting.add("e", "4") == "b"
    assert len(waiting) == 4
    waiting.remove("c")
    waiting.remove("c")
    assert waiting.add("f", "4") is None
    assert waiting.add("g", "5") == "e"
    assert list(waiting) == ["a", "d", "f", "g"]
    assert sorted(waiting.drain()) == ["a", "d", "f", "g"]
    assert len(waiting) == 0


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 20), st.sampled_from("123")), max_size=80))
def test_the_number_of_pending_handshakes_is_bounded(steps: list[tuple[bool, int, str]]) -> None:
    waiting: PendingHandshakes[int] = PendingHandshakes(5)
    inside: set[int] = set()
    for comes, name, ip in steps:
        if comes and name not in inside:
            inside.discard(-1 if (gone := waiting.add(name, ip)) is None else gone)
            inside.add(name)
        elif not comes:
            waiting.remove(name)
            inside.discard(name)
        assert len(waiting) == len(inside) <= 5
    assert set(waiting.drain()) == inside


def test_one_host_has_few_connections() -> None:
    many = ["192.0.2.1", "2001:db8::1"] * (MAX_PER_HOST - 1) + ["::ffff:192.0.2.1", "2001:db8::9"]
    assert is_over_host_limit("192.0.2.1", many) and not is_over_host_limit("192.0.2.1", many[:-2])
    assert is_over_host_limit("2001:db8::2", many) and not is_over_host_limit("2001:db8:0:1::1", many)
    assert not is_over_host_limit("192.0.2.2", many)
    assert not is_over_host_limit("127.0.0.1", ["127.0.0.1"] * 100), "our own machine"
