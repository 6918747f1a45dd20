"""Rates, recent drops and waits."""

import pytest

from rollup_node.stages.messages.derivation import DerivationWaits
from rollup_node.stages.rpc.rates import RateWindow, RecentDrops, RecentWaits


def test_a_rate_begins_again_after_a_reset() -> None:
    window = RateWindow()
    assert window.rate(0) is None
    for second in range(100):
        window.add(10 * second + (1000 if second < 20 else 2000), second)
    assert window.rate(99) == pytest.approx(10)
    assert window.rate(200) is None
    window.add(5, 100)
    assert window.rate(100) is None
    window.add(15, 105)
    assert window.rate(105) == 2


def test_drops_of_the_last_hour() -> None:
    drops = RecentDrops()
    drops.add(100, 0)
    assert drops.recent(0) == 0
    drops.add(103, 10)
    drops.add(104, 20)
    drops.add(2, 200)
    assert drops.recent(200) == 6
    assert drops.recent(3700) == 2
    assert drops.recent(4000) == 0


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
