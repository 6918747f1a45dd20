"""When a process counts as hung. Wall time does not decide: a starved process is late, but has used no CPU time."""

from dataclasses import dataclass

from rollup_node.node.system.procfs import ProcessStat


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
        self._beat_at = 0.0
        self._beat_cpu = 0.0
        self._stopped_at: float | None = None

    def reset(self) -> None:
        """Restarts all timers: the supervisor itself did not run, so heartbeats may have gone unnoticed."""
        self._beats = -1
        self._stopped_at = None

    def check(self, now: float, stat: ProcessStat, beats: int) -> str | None:
        """The reason why the process counts as hung, or None. `beats` counts its heartbeats."""
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
            return f"stopped by a signal for {stopped:.1f} s" if stopped > self.policy.stopped else None
        used = stat.cpu - self._beat_cpu
        if used > self.policy.cpu:
            return f"no heartbeat during {used:.1f} s of CPU time"
        elapsed = now - self._beat_at
        if stat.state in "SD" and elapsed > self.policy.blocked:
            return f"no heartbeat for {elapsed:.1f} s while blocked"
        return None
