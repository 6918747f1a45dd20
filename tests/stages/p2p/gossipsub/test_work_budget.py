import pytest

from rollup_node.stages.p2p.gossipsub.work_budget import ALL, FEWEST, MAX_SAVED, WorkBudget

A, B = b"a", b"b"


def test_a_debt_is_paid_at_the_rate_of_a_share() -> None:
    shares = WorkBudget()
    assert shares.pause(A, 0.0) == 0.0
    shares.charge(A, 0.1, 0.0)
    assert shares.pause(A, 0.0) == pytest.approx(0.1 * FEWEST / ALL)
    assert shares.pause(A, 1.0) == pytest.approx(0.1 * FEWEST / ALL - 1.0)
    assert shares.pause(A, 2.0) == 0.0 and shares.pause(B, 0.0) == 0.0


def test_the_more_peers_the_smaller_the_share() -> None:
    shares = WorkBudget()
    for number in range(4 * FEWEST):
        shares.charge(bytes([number]), 0.1, 0.0)
    assert shares.pause(b"\x00", 0.0) == pytest.approx(0.1 * 4 * FEWEST / ALL)


def test_little_is_saved() -> None:
    shares = WorkBudget()
    shares.charge(A, 0.0, 0.0)
    shares.charge(A, MAX_SAVED, 1e6)
    assert shares.pause(A, 1e6) == 0.0
    shares.charge(A, 0.1, 1e6)
    assert shares.pause(A, 1e6) > 0.0


def test_who_is_gone_is_forgotten() -> None:
    shares = WorkBudget()
    shares.charge(A, 1.0, 0.0)
    shares.forget(A)
    shares.forget(B)
    assert len(shares) == 0 and shares.pause(A, 0.0) == 0.0
