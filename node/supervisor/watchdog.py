"""When a process counts as hung.

Wall time does not decide, for a process that waits for CPU time or memory is starved: it counts what the process did
with its time since its last heartbeat."""

from collections.abc import Callable
from dataclasses import dataclass

from rollup_node.node.system.procfs import ProcessStat, Waiting

OVERDUE_SECONDS = 1.5
"""A process without a heartbeat for so long is looked at more closely; it should have one each second."""

MAX_INTERVAL = 1.5
"""What an interval between two checks counts at most: in a longer one the supervisor itself did not run."""


@dataclass(frozen=True)
class RestartPolicy:
    """When processes are killed and restarted. Times in seconds.

    A process without a heartbeat is killed after `cpu` of CPU time, after `blocked` asleep, or after `stopped` by a
    signal. More than `deaths` of one process within `window` end the node. `stop_total` bounds the stop of the node."""

    cpu: float = 10.0
    blocked: float = 30.0
    stopped: float = 5.0
    deaths: int = 5
    window: float = 60.0
    stop_total: float = 8.0


class Watchdog:
    """Watches one incarnation of one process."""

    def __init__(self, policy: RestartPolicy) -> None:
        self.policy = policy
        self._beats = -1
        self._beat_cpu = 0.0
        self._last_check: float | None = None
        self._silent = self._stopped = 0.0
        self._asleep: _SleepClock | None = None

    def check(self, now: float, stat: ProcessStat, beats: int, waiting: Callable[[], Waiting]) -> str | None:
        """Return the reason why the process counts as hung, or None.

        `now` is monotonic time, `beats` counts its heartbeats, `waiting` is called when heartbeats are overdue."""
        interval = 0.0 if self._last_check is None else min(now - self._last_check, MAX_INTERVAL)
        self._last_check = now
        if beats != self._beats:
            self._beats, self._beat_cpu = beats, stat.cpu
            self._silent, self._stopped, self._asleep = 0.0, 0.0, None
            return None
        self._silent += interval
        if stat.state in "Tt":
            self._stopped += interval
            return self._over("stopped by a signal for", self._stopped, self.policy.stopped)
        self._stopped = 0.0
        used = stat.cpu - self._beat_cpu
        if used > self.policy.cpu:
            return f"no heartbeat during {used:.1f} s of CPU time"
        if self._silent < OVERDUE_SECONDS:
            return None
        if self._asleep is None:
            self._asleep = _SleepClock(stat, waiting())
            return None
        asleep = self._asleep.advance(interval, stat, waiting())
        return self._over("no heartbeat for", asleep, self.policy.blocked, " while blocked")

    @staticmethod
    def _over(text: str, seconds: float, limit: float, end: str = "") -> str | None:
        return f"{text} {seconds:.1f} s{end}" if seconds > limit else None


class _SleepClock:
    """For how long a process has been asleep: the time that was neither CPU time nor waiting for it.

    Intervals with major page faults do not count either, as the process then waited for memory."""

    def __init__(self, stat: ProcessStat, waiting: Waiting) -> None:
        self._stat, self._waiting = stat, waiting
        self._major_faults = stat.major_faults
        self._observed = self._runnable = 0.0

    def advance(self, interval: float, stat: ProcessStat, waiting: Waiting) -> float:
        """Add an interval; return the seconds asleep, 0 while the process is runnable and only waits for a CPU."""
        paging, self._major_faults = stat.major_faults > self._major_faults, stat.major_faults
        if not paging:
            self._observed += interval
        if waiting.runnable:
            self._runnable += interval
            return 0.0
        delay = max(self._runnable, waiting.run_delay - self._waiting.run_delay)
        return self._observed - (stat.cpu - self._stat.cpu) - delay
