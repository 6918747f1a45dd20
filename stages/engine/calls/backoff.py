"""Pauses after failed work, kept apart for each task: 1, 2, 4, 8, 10, 10 s, plus jitter [STA17]."""

from collections.abc import Callable

from rollup_node.stages.protocol.pacing import backoff

FIRST_SECONDS = 1.0
MAX_SECONDS = 10.0


class TaskBackoff:
    """Times are monotonic seconds. `jitter` returns the seconds to add to a pause; `first` is the first pause."""

    def __init__(self, jitter: Callable[[], float] = lambda: 0.0, first: float = FIRST_SECONDS) -> None:
        self._jitter, self._first = jitter, first
        self._failures: dict[str, int] = {}
        self._retry_at: dict[str, float] = {}

    def fail(self, task: str, now: float, pause: float | None = None) -> float:
        """Note a temporary failure; returns the seconds until the task may go on.

        They are those of `pause` for one that goes on at its own rhythm."""
        failures = self._failures.get(task, 0)
        self._failures[task] = failures + 1
        seconds = self._pause(failures) if pause is None else pause
        self._retry_at[task] = now + seconds
        return seconds

    def reset(self, task: str, now: float) -> float:
        """Note a reset; the seconds until the task may go on, 0 unless it has failed before."""
        failures = self._failures.get(task, 0)
        self._failures[task] = failures + 1
        seconds = self._pause(failures - 1) if failures else 0.0
        self._retry_at[task] = now + seconds
        return seconds

    def recover(self, task: str) -> int:
        """Note that the task works; returns how often it failed before, 0 if it did not."""
        self._retry_at.pop(task, None)
        return self._failures.pop(task, 0)

    def is_waiting(self, task: str, now: float) -> bool:
        """Return whether the task must not go on yet."""
        return now < self._retry_at.get(task, now)

    def next_retry(self, now: float) -> float | None:
        """Return when the next task may go on; None if none is waiting."""
        return min((at for at in self._retry_at.values() if at > now), default=None)

    def _pause(self, failures: int) -> float:
        return backoff(failures + 1, self._first, MAX_SECONDS) + self._jitter()
