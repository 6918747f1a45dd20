"""Shares of the CPU time that received bytes take."""

import pytest

from rollup_node.stages.p2p.gating.work_shares import MAX_DELAY, MAX_SAVED, TOTAL_SHARE, WorkShares

LOUD, QUIET = b"loud", b"quiet"


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
    assert shares.charge(QUIET, 0.01, 0.1) == 0.0, "a peer within its share is not slowed down"


def test_debt_is_repaid_at_the_rate_of_a_share() -> None:
    shares = WorkShares()
    assert shares.charge(LOUD, MAX_SAVED + 0.1, 0.0) == pytest.approx(0.1 / TOTAL_SHARE)
    assert shares.charge(LOUD, 0.0, 0.1) == pytest.approx(0.1 / TOTAL_SHARE - 0.1)
    assert shares.charge(LOUD, 0.0, 0.3) == 0.0


def test_removed_peers_have_no_debt() -> None:
    shares = WorkShares()
    shares.charge(LOUD, 5.0, 0.0)
    shares.remove_peer(LOUD)
    shares.remove_peer(QUIET)
    assert len(shares) == 0 and shares.charge(LOUD, 0.0, 0.0) == 0.0
