"""Maps bounded in total and per group."""

from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.p2p.discv5.bounded_map import BoundedMap


@given(st.lists(st.tuples(st.sampled_from(["put", "get", "pop"]), st.integers(0, 12), st.integers(0, 3)), max_size=60))
def test_bounds_hold_after_any_operations(steps: list[tuple[str, int, int]]) -> None:
    entries: BoundedMap[int, int] = BoundedMap(6, 3)
    groups: dict[int, int] = {}
    for action, key, group in steps:
        if action == "put":
            entries.put(key, bytes([group]), key * 10)
            groups[key] = group
            assert entries.get(key) == key * 10
        elif action == "get":
            assert entries.get(key) in (None, key * 10)
        else:
            entries.pop(key)
            assert entries.get(key) is None
        present = [key for key in range(13) if key in entries._entries]
        assert len(entries) == len(present) <= 6
        assert all(sum(groups[key] == group for key in present) <= 3 for group in range(4))
        assert sum(map(len, entries._groups.values())) == len(present)


def test_the_least_recently_used_entry_is_evicted() -> None:
    entries: BoundedMap[str, int] = BoundedMap(3, 2)
    entries.put("a", b"x", 1)
    entries.put("b", b"y", 2)
    entries.put("c", b"z", 3)
    assert entries.get("a") == 1
    entries.put("d", b"w", 4)
    assert entries.get("b") is None and entries.get("a") == 1


def test_a_full_group_evicts_its_own_entries() -> None:
    entries: BoundedMap[str, int] = BoundedMap(10, 2)
    entries.put("other", b"x", 1)
    for key in "abcd":
        entries.put(key, b"y", 2)
    assert [key for key in ("other", *"abcd") if entries.get(key)] == ["other", "c", "d"]
    entries.clear()
    assert len(entries) == 0 and entries.get("other") is None
