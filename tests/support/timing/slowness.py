"""How slow this machine is now: limits of tests are so many times longer, and fewer of them run at a time."""

import functools
import subprocess
import sys
import time

USUAL_SECONDS = 0.15
"""What the start of an interpreter takes, with modules that programs import."""
MAX_SLOWNESS = 5.0
MEASURED_SECONDS = 10.0
"""How long a measurement is good for."""


def slowness() -> float:
    """Return how many times as long as usual a program takes to start; at least 1."""
    return _measured(time.monotonic() // MEASURED_SECONDS)


def within(seconds: float, limit: float) -> bool:
    """Whether a time is below a limit, which is longer while the machine is slow."""
    return seconds < limit or seconds < limit * slowness()


@functools.lru_cache(maxsize=1)
def _measured(_: float) -> float:
    times = []
    for _ in range(3):
        begin = time.perf_counter()
        subprocess.run([sys.executable, "-c", "import asyncio, http.client, json"], check=True)
        times.append(time.perf_counter() - begin)
    return min(MAX_SLOWNESS, max(1.0, min(times) / USUAL_SECONDS))
