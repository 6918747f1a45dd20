"""What is done again and again is done on a common grid of time, so that a process wakes once for all of it."""

GRID = 0.25


def aligned_deadline(now: float, period: float) -> float:
    """The next multiple of `period` after `now`; both in seconds of a steady clock. Periods are multiples of GRID."""
    return (now // period + 1.0) * period
