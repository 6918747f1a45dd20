"""The memory budget: who is dropped when too much is held. Shares of the CPU time that received bytes take."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.p2p.gating.budgets import MAX_DELAY, MAX_SAVED, TOTAL_SHARE, MemoryBudget, WorkShares

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


def test_removed_peers_have_no_debt() -> None:
    shares = WorkShares()
    shares.charge(LOUD, 5.0, 0.0)
    shares.remove_peer(LOUD)
    shares.remove_peer(HONEST)
    assert len(shares) == 0 and shares.charge(LOUD, 0.0, 0.0) == 0.0
