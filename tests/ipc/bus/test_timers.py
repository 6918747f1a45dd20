"""Timers are aligned, so that they share wake-ups."""

from hypothesis import given
from hypothesis import strategies as st

from rollup_node.ipc.bus.timers import aligned_deadline


@given(st.floats(0, 1e7), st.integers(1, 40))
def test_the_deadline_is_a_later_multiple_within_one_period(now: float, quarters: int) -> None:
    period = quarters * 0.25
    due = aligned_deadline(now, period)
    assert now < due <= now + period + 1e-6
    assert abs(due / period - round(due / period)) < 1e-6
