"""Durations as operators write them: `1h2m3s`, `500ms`, `1.5h`, `-1s`, `0`."""

import re

_NANOSECONDS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "μs": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_PART = r"(\d+\.\d*|\.\d+|\d+)(ns|us|µs|μs|ms|s|m|h)"
_PARTS = re.compile(_PART, re.ASCII)
_DURATION = re.compile(rf"([+-]?)((?:{_PART})+)", re.ASCII)
_MAX_NANOSECONDS = (1 << 63) - 1


def parse_duration(text: str) -> float:
    """Return the seconds of a duration, exact to the nanosecond [OPT2].

    Raises ValueError for any other text, and beyond 292 years."""
    if text in ("0", "+0", "-0"):
        return 0.0
    match = _DURATION.fullmatch(text) if len(text) <= 100 else None
    if match is None:
        raise ValueError("not a duration")
    total = sum(_nanoseconds(number, unit) for number, unit in _PARTS.findall(match[2]))
    if total > _MAX_NANOSECONDS:
        raise ValueError("too long a duration")
    return (-total if match[1] == "-" else total) / 1e9


def _nanoseconds(number: str, unit: str) -> int:
    whole, _, fraction = number.partition(".")
    scale = _NANOSECONDS[unit]
    rest: int = int(fraction or 0) * scale // int("1" + "0" * len(fraction))
    return int(whole or 0) * scale + rest
