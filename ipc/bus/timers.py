"""Timer alignment: periodic work is due at multiples of its period, so that a process wakes up once for all of it."""


def aligned_deadline(now: float, period: float) -> float:
    """The next multiple of `period` after `now`, both in seconds of a monotonic clock."""
    return (now // period + 1.0) * period
