"""Maps with bounds."""

from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.p2p.discv5.bounded_map import BoundedMap


@given(st.lists(st.tuples(st.sampled_from(["put", "get", "pop"]), st.integers(0, 12), st.integers(0, 3)), max_size=60))
def test_bounds_hold_whatever_is_done(steps: list[tuple[str, int, int]]) -> None:
    found: BoundedMap[int, int] = BoundedMap(6, 3)
    groups: dict[int, int] = {}
    for action, key, group in steps:
        if action == "put":
            found.put(key, bytes([group]), key * 10)
            groups[key] = group
            assert found.get(key) == key * 10
        elif action == "get":
            assert found.get(key) in (None, key * 10)
        else:
            found.pop(key)
            assert found.get(key) is None
        present = [key for key in range(13) if key in found._entries]
        assert len(found) == len(present) <= 6
        assert all(sum(groups[key] == group for key in present) <= 3 for group in range(4))
        assert sum(map(len, found._groups.values())) == len(present)


def test_the_least_recently_used_entry_is_evicted() -> None:
    found: BoundedMap[str, int] = BoundedMap(3, 2)
    found.put("a", b"x", 1)
    found.put("b", b"y", 2)
    found.put("c", b"z", 3)
    assert found.get("a") == 1
    found.put("d", b"w", 4)
    assert found.get("b") is None and found.get("a") == 1


def test_a_full_group_evicts_its_own_entries() -> None:
    found: BoundedMap[str, int] = BoundedMap(10, 2)
    found.put("good", b"x", 1)
    for key in "abcd":
        found.put(key, b"y", 2)
    assert [key for key in ("good", *"abcd") if found.get(key)] == ["good", "c", "d"]
    found.clear()
    assert len(found) == 0 and found.get("good") is None
