import pytest

from rollup_node.stages.p2p.gossipsub.work_budget import MAX_SAVED, MIN_PEERS, TOTAL_SHARE, WorkBudget

A, B = b"a", b"b"


def test_debt_is_repaid_at_the_rate_of_a_share() -> None:
    shares = WorkBudget()
    assert shares.delay(A, 0.0) == 0.0
    shares.charge(A, 0.1, 0.0)
    assert shares.delay(A, 0.0) == pytest.approx(0.1 * MIN_PEERS / TOTAL_SHARE)
    assert shares.delay(A, 1.0) == pytest.approx(0.1 * MIN_PEERS / TOTAL_SHARE - 1.0)
    assert shares.delay(A, 2.0) == 0.0 and shares.delay(B, 0.0) == 0.0


def test_the_share_shrinks_with_more_peers() -> None:
    shares = WorkBudget()
    for number in range(4 * MIN_PEERS):
        shares.charge(bytes([number]), 0.1, 0.0)
    assert shares.delay(b"\x00", 0.0) == pytest.approx(0.1 * 4 * MIN_PEERS / TOTAL_SHARE)


def test_savings_are_bounded() -> None:
    shares = WorkBudget()
    shares.charge(A, 0.0, 0.0)
    shares.charge(A, MAX_SAVED, 1e6)
    assert shares.delay(A, 1e6) == 0.0
    shares.charge(A, 0.1, 1e6)
    assert shares.delay(A, 1e6) > 0.0


def test_removed_peers_are_forgotten() -> None:
    shares = WorkBudget()
    shares.charge(A, 1.0, 0.0)
    shares.remove_peer(A)
    shares.remove_peer(B)
    assert len(shares) == 0 and shares.delay(A, 0.0) == 0.0
