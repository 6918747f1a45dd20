"""The memory budget: who is dropped when too much is held."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.p2p.gating.memory_budget import MemoryBudget

HONEST, LOUD = b"honest", b"loud"


def test_nobody_is_dropped_within_the_budget() -> None:
    budget: MemoryBudget[str] = MemoryBudget(100)
    budget.add("a", LOUD, 100)
    assert budget.total == 100 and budget.next_dropped() is None
    budget.add("b", HONEST, 1)
    assert budget.next_dropped() == "a"


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


def test_no_more_is_taken_away_than_is_held() -> None:
    budget: MemoryBudget[str] = MemoryBudget(100)
    budget.add("a", LOUD, 5)
    budget.add("a", LOUD, -9)
    budget.add("b", LOUD, -9)
    assert budget.total == 0 and len(budget) == 0 and budget.peer_bytes(LOUD) == 0


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
