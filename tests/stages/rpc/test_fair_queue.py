"""A queue that is fair between keys."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.rpc.fair_queue import FairQueue


def drain(queue: FairQueue[str]) -> list[str]:
    found = []
    while queue:
        found.append(queue.pop())
    return found


def test_keys_take_turns_and_their_items_stay_in_order() -> None:
    queue: FairQueue[str] = FairQueue()
    for item in ("a1", "a2", "a3", "b1", "c1", "c2"):
        queue.push(item[0], item)
    assert drain(queue) == ["a1", "b1", "c1", "a2", "c2", "a3"]
    with pytest.raises(IndexError):
        queue.pop()


def test_urgent_items_come_before_others_of_their_key_alone() -> None:
    queue: FairQueue[str] = FairQueue()
    for item in ("a1", "a2", "b1"):
        queue.push(item[0], item)
    queue.push("a", "a3", urgent=True)
    queue.push("a", "a4", urgent=True)
    assert drain(queue) == ["a3", "b1", "a4", "a1", "a2"]


def test_a_new_key_waits_for_one_item_of_each_other_at_most() -> None:
    queue: FairQueue[str] = FairQueue()
    for number in range(100):
        queue.push("a", f"a{number}")
    queue.pop()
    queue.push("b", "b0")
    assert [queue.pop(), queue.pop()] == ["a1", "b0"]


@given(st.lists(st.sampled_from("abc"), max_size=50))
def test_nothing_is_lost(keys: list[str]) -> None:
    queue: FairQueue[str] = FairQueue()
    items = [f"{key}{number}" for number, key in enumerate(keys)]
    for item in items:
        queue.push(item[0], item)
    assert sorted(drain(queue)) == sorted(items)
