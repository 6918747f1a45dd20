"""Exponential backoff, the pause before what has failed is tried again."""


def backoff(failures: int, first: float, most: float) -> float:
    """Return the seconds to wait after so many failures in a row: `first` doubled by each later one, up to `most`."""
    return min(most, first * 2.0 ** min(max(0, failures - 1), 30))
