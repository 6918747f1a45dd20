"""When a process counts as hung. Never by wall time alone: a starved process is late, but has used no CPU time."""

from dataclasses import dataclass

from rollup_node.node.system.procfs import ProcessStat


@dataclass(frozen=True)
class Limits:
    """Bounds in seconds. `cpu` without a beat, `blocked` (asleep) without a beat, `stopped` by a signal; more than
    `deaths` within `window` end the node; `stop_total` bounds a stop of all rows."""

    cpu: float = 10.0
    blocked: float = 30.0
    stopped: float = 5.0
    deaths: int = 5
    window: float = 60.0
    stop_total: float = 8.0


class Judge:
    """Watches one life of one process."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._beats = -1
        self._beat_at = 0.0
        self._beat_cpu = 0.0
        self._stopped_at: float | None = None

    def forgive(self) -> None:
        """Starts anew: the supervisor itself was not running, so it cannot tell."""
        self._beats = -1
        self._stopped_at = None

    def verdict(self, now: float, stat: ProcessStat, beats: int) -> str | None:
        """Why the process counts as hung, or None. `beats` is how often it has beaten by now."""
        if beats != self._beats:
            self._beats, self._beat_at, self._beat_cpu = beats, now, stat.cpu
            self._stopped_at = None
        if stat.state not in "Tt":
            self._stopped_at = None
        elif self._stopped_at is None:
            self._stopped_at = now
        return self._reason(now, stat)

    def _reason(self, now: float, stat: ProcessStat) -> str | None:
        if self._stopped_at is not None:
            stopped = now - self._stopped_at
            return f"stopped by a signal for {stopped:.1f} s" if stopped > self.limits.stopped else None
        used = stat.cpu - self._beat_cpu
        if used > self.limits.cpu:
            return f"no heartbeat during {used:.1f} s of CPU time"
        silent = now - self._beat_at
        if stat.state in "SD" and silent > self.limits.blocked:
            return f"no heartbeat for {silent:.1f} s while blocked"
        return None
