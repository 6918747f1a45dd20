"""Timers are aligned, so that they share wake-ups."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from rollup_node.ipc.bus.timers import aligned_deadline, sleep_aligned, until_aligned
from tests.support.timing import virtual_time


@given(st.floats(0, 1e7), st.integers(1, 40))
def test_the_deadline_is_a_later_multiple_within_one_period(now: float, quarters: int) -> None:
    period = quarters * 0.25
    due = aligned_deadline(now, period)
    assert now < due <= now + period + 1e-6
    assert abs(due / period - round(due / period)) < 1e-6


@given(st.floats(0, 1e7), st.integers(1, 40))
def test_a_pause_ends_at_a_multiple_and_is_never_short(now: float, quarters: int) -> None:
    period = quarters * 0.25
    seconds = until_aligned(now, period)
    assert period * 0.09 < seconds <= period * 1.11
    assert abs((now + seconds) / period - round((now + seconds) / period)) < 1e-6


def test_sleeps_end_together() -> None:
    async def main() -> list[float]:
        ends = []

        async def sleep(after: float) -> None:
            await asyncio.sleep(after)
            await sleep_aligned(0.2)
            ends.append(asyncio.get_running_loop().time() / 0.2)

        await asyncio.gather(*(sleep(0.01 * index) for index in range(3)))
        return ends

    ends = virtual_time.run(main())
    assert all(abs(end - round(end)) < 1e-6 for end in ends) and len({round(end) for end in ends}) <= 2
