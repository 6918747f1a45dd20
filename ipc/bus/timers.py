"""Timer alignment: periodic work is due at multiples of its period, so that a process wakes up once for all of it."""

import asyncio


def aligned_deadline(now: float, period: float) -> float:
    """The next multiple of `period` after `now`, both in seconds of a monotonic clock."""
    return (now // period + 1.0) * period


async def sleep_aligned(period: float) -> None:
    """Sleeps until the next multiple of `period`, in seconds, that is not just now: a loop may end a sleep early by the
    resolution of its clock."""
    now = asyncio.get_running_loop().time()
    await asyncio.sleep(aligned_deadline(now + period / 10, period) - now)
