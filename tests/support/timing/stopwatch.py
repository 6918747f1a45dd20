"""Times without those for which other programs of a busy machine had the CPUs."""

import time
from pathlib import Path


def cpu_wait(pid: int) -> float:
    """Seconds that the main thread of a process has been ready to run while other processes had the CPUs."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9


class Stopwatch:
    """Runs from its creation.

    Processes are those whose time is measured: they take turns, a client that asks and a server that answers, so
    that the time is without the sum of their waits."""

    def __init__(self, *pids: int) -> None:
        self._waits = {pid: cpu_wait(pid) for pid in pids}
        self._started = time.monotonic()

    @property
    def seconds(self) -> float:
        """Seconds since the start without those in which a process waited for a CPU; at least 0."""
        elapsed = time.monotonic() - self._started
        return max(0.0, elapsed - sum(cpu_wait(pid) - before for pid, before in self._waits.items()))
