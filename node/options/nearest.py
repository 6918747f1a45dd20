"""Suggestions for misspelt names."""

from collections.abc import Iterable


def nearest(name: str, known: Iterable[str], count: int = 3) -> list[str]:
    """Return the known names most like `name`, case ignored, best first; at most `count`."""
    # Deferred: only a misspelt name needs it, and it costs 5 ms.
    from difflib import get_close_matches

    by_lower = {candidate.lower(): candidate for candidate in known}
    return [by_lower[match] for match in get_close_matches(name.lower()[:100], by_lower, n=count, cutoff=0.6)]


def did_you_mean(name: str, known: Iterable[str], count: int = 1, prefix: str = "") -> str:
    """Return the end of an error line: `; did you mean x?`, or nothing. Each suggestion gets the prefix."""
    names = nearest(name, known, count)
    return f"; did you mean {' or '.join(prefix + found for found in names)}?" if names else ""
