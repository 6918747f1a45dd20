"""What the supervisor remembers of one process of the table through all its lives."""

import time
from collections import deque
from dataclasses import dataclass, field

from rollup_node.node.supervisor.child_processes import Child
from rollup_node.node.supervisor.watchdog import Judge, Limits
from rollup_node.node.system.processes import Row
from rollup_node.node.system.runtime_dir import ProcessEntry


@dataclass
class Member:
    """One copy of a row. `index` is its row on the board; times are of the monotonic clock.

    `kill_at` is when it is killed unless it has ended, `reason` why it is being killed, `restart_at` when the next
    life begins."""

    row: Row
    copy: int
    index: int
    limits: Limits
    incarnation: int = 0
    child: Child | None = None
    started: float = 0.0
    started_unix: float = 0.0
    kill_at: float | None = None
    restart_at: float | None = None
    reason: str = ""
    asked: bool = False
    judge: Judge = field(init=False)
    deaths: deque[float] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self.judge = Judge(self.limits)

    @property
    def name(self) -> str:
        """As logs, titles and metrics show it."""
        return self.row.name(self.copy)

    def begin_life(self, now: float) -> None:
        """Forgets the last life."""
        self.incarnation += 1
        self.judge = Judge(self.limits)
        self.started, self.started_unix = now, time.time()
        self.kill_at, self.restart_at, self.reason, self.asked = None, None, "", False

    def entry(self) -> ProcessEntry | None:
        """Its line of processes.json while it lives."""
        if self.child is None:
            return None
        return ProcessEntry(
            self.row.role, self.copy, self.child.pid, self.incarnation, self.started_unix, self.child.start_ticks
        )

    def dies_too_often(self, now: float) -> bool:
        """Notes a death; whether there were more than allowed within the window."""
        self.deaths.append(now)
        while self.deaths[0] < now - self.limits.window:
            self.deaths.popleft()
        return len(self.deaths) > self.limits.deaths
