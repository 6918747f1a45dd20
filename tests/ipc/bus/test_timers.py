"""Repeated work shares its wake-ups."""

from hypothesis import given
from hypothesis import strategies as st

from rollup_node.ipc.bus.timers import GRID, aligned_deadline


@given(st.floats(0, 1e7), st.integers(1, 40))
def test_the_next_time_is_a_later_multiple_and_not_far(now: float, multiple: int) -> None:
    period = multiple * GRID
    due = aligned_deadline(now, period)
    assert now < due <= now + period + 1e-6
    assert abs(due / period - round(due / period)) < 1e-6
