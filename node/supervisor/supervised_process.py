"""What the supervisor knows of one process of the table over all its incarnations."""

import signal
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from rollup_node.node.supervisor.child_processes import ChildProcess
from rollup_node.node.supervisor.watchdog import RestartPolicy, Watchdog
from rollup_node.node.system.process_table import ProcessSpec
from rollup_node.node.system.procfs import read_proportional_memory
from rollup_node.stages.io.task import ProcessEntry


@dataclass
class SupervisedProcess:
    """One copy of a process, in its slot of the process table. Times are monotonic.

    `kill_at` is when it is killed unless it has exited by then, `kill_reason` why; `killed` whether it was;
    `restart_at` is when its next incarnation starts; `stop_requested` whether it has been asked to stop;
    `fork_failures` are the forks that have failed since the last that did not."""

    spec: ProcessSpec
    copy: int
    slot: int
    policy: RestartPolicy
    incarnation: int = 0
    child: ChildProcess | None = None
    started: float = 0.0
    started_unix: float = 0.0
    kill_at: float | None = None
    kill_reason: str = ""
    killed: bool = False
    restart_at: float | None = None
    stop_requested: bool = False
    watchdog: Watchdog = field(init=False)
    deaths: deque[float] = field(default_factory=deque)
    fork_failures: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.watchdog = self._new_watchdog()

    @property
    def name(self) -> str:
        """Its name in logs, titles and metrics."""
        return self.spec.name(self.copy)

    def begin_incarnation(self, now: float) -> None:
        """Count a start, and resets what concerned the last incarnation."""
        self.incarnation += 1
        self.watchdog = self._new_watchdog()
        self.started, self.started_unix = now, time.time()
        self.kill_at, self.restart_at, self.kill_reason = None, None, ""
        self.killed, self.stop_requested = False, False

    def request_stop(self, now: float) -> None:
        """Ask it to stop, once, and have it killed after its time; nothing if it does not run."""
        if self.child is not None and not self.stop_requested:
            self.stop_requested, self.kill_reason = True, ""
            self.kill_at = now + self.spec.stop_timeout
            self.child.send_signal(signal.SIGTERM)

    def _new_watchdog(self) -> Watchdog:
        limit = self.spec.max_cpu
        return Watchdog(self.policy if limit is None else replace(self.policy, cpu=limit))

    def entry(self) -> ProcessEntry | None:
        """Its entry in processes.json, while it runs."""
        if self.child is None:
            return None
        return ProcessEntry(
            self.spec.role,
            self.copy,
            self.child.pid,
            self.incarnation,
            self.started_unix,
            self.child.start_ticks,
            self.spec.group,
        )


def record_death(deaths: deque[float], now: float, policy: RestartPolicy) -> bool:
    """Add a death to those within the window of the policy; whether they are more than it allows."""
    deaths.append(now)
    while deaths[0] < now - policy.window:
        deaths.popleft()
    return len(deaths) > policy.deaths


def memory_sizes(processes: Iterable[SupervisedProcess]) -> dict[str, int]:
    """Return the bytes of the processes that run, by name."""
    children = {process.name: process.child.pid for process in processes if process.child is not None}
    sizes = {name: read_proportional_memory(pid) for name, pid in children.items()}
    return {name: size for name, size in sizes.items() if size is not None}
