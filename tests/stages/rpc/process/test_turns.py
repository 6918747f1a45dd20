"""Turns on the event loop."""

import asyncio
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.rpc.process.turns import FairQueue, Turns


async def test_nobody_waits_alone() -> None:
    turns = Turns(1)
    coroutine = turns.turn("a")
    try:
        coroutine.send(None)
    except StopIteration:
        return
    raise AssertionError("it waited")


async def test_keys_take_turns_one_per_iteration() -> None:
    turns = Turns(1)
    order: list[str] = []

    async def work(name: str) -> None:
        await turns.turn(name[0])
        order.append(name)

    names = ("a1", "a2", "a3", "b1")
    tasks = [asyncio.create_task(work(name)) for name in names]
    progress = []
    while len(order) < len(names):
        await asyncio.sleep(0)
        progress.append(len(order))
    assert order == ["a1", "a2", "b1", "a3"]
    assert all(later - earlier <= 1 for earlier, later in pairwise(progress))
    await asyncio.gather(*tasks)
    await asyncio.sleep(0)
    await asyncio.wait_for(turns.turn("a"), 1)


async def test_urgent_ones_of_a_key_come_first() -> None:
    turns = Turns(1)
    order: list[str] = []

    async def work(name: str, urgent: bool) -> None:
        await turns.turn("a", urgent=urgent)
        order.append(name)

    await asyncio.gather(work("free", False), work("later", False), work("first", True), work("second", True))
    assert order == ["free", "first", "second", "later"]


async def test_the_turn_of_one_that_is_cancelled_goes_to_the_next() -> None:
    turns = Turns(1)
    await turns.turn("a")
    first, cancelled, waiting = (asyncio.create_task(turns.turn("a")) for _ in range(3))
    await asyncio.sleep(0)
    cancelled.cancel()
    async with asyncio.timeout(5):
        await waiting
    assert first.done() and cancelled.cancelled()


def drain(queue: FairQueue[str]) -> list[str]:
    result = []
    while queue:
        result.append(queue.pop())
    return result


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
