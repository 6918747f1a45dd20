"""Timer alignment: periodic work is due at multiples of its period, so that a process wakes up once for all of it."""

import asyncio


def aligned_deadline(now: float, period: float) -> float:
    """Return the next multiple of `period` after `now`, both in seconds of a monotonic clock."""
    return (now // period + 1.0) * period


def until_aligned(now: float, period: float) -> float:
    """Return the seconds to the next multiple of `period`, by a clock that may be early by its resolution."""
    return aligned_deadline(now + period / 10, period) - now


async def sleep_aligned(period: float) -> None:
    """Sleep until the next multiple of `period`, in seconds, that is not just now."""
    await asyncio.sleep(until_aligned(asyncio.get_running_loop().time(), period))
