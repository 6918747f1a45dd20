"""Rates, recent drops and waits."""

import msgspec
import pytest

from rollup_node.stages.messages.derivation import DerivationWaits
from rollup_node.stages.rpc.status.node_status import BlockStatus, HeadsStatus
from rollup_node.stages.rpc.status.rates import (
    KEPT_SECONDS,
    MIN_RATE_SECONDS,
    REQUESTS_SECONDS,
    STEP_SECONDS,
    HeadHistory,
    RateWindow,
    RecentDrops,
    RecentRequests,
    RecentWaits,
)
from tests.support.rpc.node_statuses import UNKNOWN


def test_a_rate_begins_again_after_a_reset() -> None:
    window = RateWindow()
    assert window.rate(0) is None
    for second in range(100):
        window.add(10 * second + (1000 if second < 20 else 2000), second)
    assert window.rate(99) == window.rate(99 + MIN_RATE_SECONDS) == pytest.approx(10)
    assert window.rate(99.1 + MIN_RATE_SECONDS) is None
    window.add(5, 100)
    assert window.rate(100) is None
    window.add(15, 105)
    assert window.rate(105) == 2


def test_requests_for_each_l1_block() -> None:
    requests = RecentRequests()
    assert requests.per_block() is None
    requests.add(100, 7, 0.0)
    assert requests.per_block() is None
    requests.add(108, 11, 1.0)
    assert requests.per_block() == 2.0
    for step in range(100):
        requests.add(200 + 30 * step, 20 + 10 * step, 10.0 * step + 20)
    assert requests.per_block() == 3.0
    # The l1 process was restarted.
    requests.add(5, 1011, REQUESTS_SECONDS + 2000)
    assert requests.per_block() is None
    requests.add(12, 1013, REQUESTS_SECONDS + 2001)
    assert requests.per_block() == 3.5


def test_drops_of_the_last_hour() -> None:
    drops = RecentDrops()
    drops.add(100, 0)
    assert drops.recent(0) == 0
    drops.add(103, 10)
    drops.add(104, 20)
    drops.add(2, 200)
    assert drops.recent(200) == 6
    drops.add(5000, 300)
    drops.add(5001, 400)
    assert [drops.recent(now) for now in (3700, 3850, 3950, 4100)] == [5001, 4999, 1, 0]


def test_recent_waits_are_those_of_the_last_twelve_seconds() -> None:
    """[LOG17]"""
    waits = RecentWaits()
    assert waits.longest() is None
    waits.add(DerivationWaits(l1=30), 0)
    assert waits.longest() == "l1"
    waits.add(DerivationWaits(l1=30, engine=5), 11.5)
    assert waits.longest() == "l1"
    waits.add(DerivationWaits(l1=30, engine=5), 12.5)
    assert waits.longest() == "engine"
    waits.add(DerivationWaits(l1=30, engine=5), 40)
    assert waits.longest() is None


STEP = int(STEP_SECONDS)


def test_one_sample_each_step_for_an_hour() -> None:
    """[RPC95]"""
    history = HeadHistory()
    for second in range(0, 2 * int(KEPT_SECONDS), 5):
        heads = HeadsStatus(BlockStatus(7, "0x", 1, 0.5 + second), None, None)
        history.add(msgspec.structs.replace(UNKNOWN, time=1000.7 + second, heads=heads))
    result = history.columns()
    assert result.step_s == STEP_SECONDS
    assert result.time == [1000 + second for second in range(int(KEPT_SECONDS), 2 * int(KEPT_SECONDS), STEP)]
    assert result.unsafe[0] == KEPT_SECONDS + 0.5
    assert set(result.safe) == set(result.finalized) == set(result.l1_head) == {None}


def test_a_clock_that_is_set_back_begins_again() -> None:
    history = HeadHistory()
    assert history.columns().time == []
    for time in (1000.0, 1010.0, 500.0, 505.0, 510.0):
        history.add(msgspec.structs.replace(UNKNOWN, time=time))
    assert history.columns().time == [500, 510]
