"""The share of work per peer."""

import pytest

from rollup_node.stages.p2p.gossipsub.work_budget import MAX_SAVED, MIN_PEERS, TOTAL_SHARE, WorkBudget

A, B = b"a", b"b"


def test_debt_is_repaid_at_the_rate_of_a_share() -> None:
    budget = WorkBudget()
    assert budget.delay(A, 0.0) == 0.0
    budget.charge(A, 0.1, 0.0)
    assert budget.delay(A, 0.0) == pytest.approx(0.1 * MIN_PEERS / TOTAL_SHARE)
    assert budget.delay(A, 1.0) == pytest.approx(0.1 * MIN_PEERS / TOTAL_SHARE - 1.0)
    assert budget.delay(A, 0.1 * MIN_PEERS / TOTAL_SHARE + 0.01) == 0.0 and budget.delay(B, 0.0) == 0.0


def test_the_share_shrinks_with_more_peers() -> None:
    budget = WorkBudget()
    for number in range(4 * MIN_PEERS):
        budget.charge(bytes([number]), 0.1, 0.0)
    assert budget.delay(b"\x00", 0.0) == pytest.approx(0.1 * 4 * MIN_PEERS / TOTAL_SHARE)


def test_savings_are_bounded() -> None:
    budget = WorkBudget()
    budget.charge(A, 0.0, 0.0)
    budget.charge(A, MAX_SAVED, 1e6)
    assert budget.delay(A, 1e6) == 0.0
    budget.charge(A, 0.1, 1e6)
    assert budget.delay(A, 1e6) > 0.0


def test_removed_peers_have_no_debt() -> None:
    budget = WorkBudget()
    budget.charge(A, 1.0, 0.0)
    budget.remove_peer(A)
    budget.remove_peer(B)
    assert len(budget) == 0 and budget.delay(A, 0.0) == 0.0
