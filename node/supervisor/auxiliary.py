"""The two child processes that are no rows: the check before the start, and the sweeper."""

import contextlib
import os
import select
import signal
import time
from collections import deque
from collections.abc import Callable
from functools import partial

from rollup_node.node.supervisor.child_processes import Child, Nursery, exit_text
from rollup_node.node.supervisor.metrics import NAME
from rollup_node.node.supervisor.precheck import ROLE as CHECK
from rollup_node.node.supervisor.precheck import run_check
from rollup_node.node.supervisor.settings import NodeSettings
from rollup_node.node.supervisor.sweeper import DONE, run_sweeper
from rollup_node.node.supervisor.sweeper import ROLE as SWEEPER
from rollup_node.node.supervisor.watchdog import Limits
from rollup_node.node.system.exit_codes import Exit
from rollup_node.node.system.runtime_dir import ProcessEntry, RuntimeDirectory
from rollup_node.stages.io.log import get_logger

Fail = Callable[[int, str], None]

ANSWER_LIMIT = 1 << 16
RESTART_PAUSE = 0.1
LAST_SECONDS = 1.0


class Precheck:
    """Runs the caller's check once, in a process of its own, and ends the start when it says so."""

    def __init__(self, nursery: Nursery, settings: NodeSettings, fail: Fail) -> None:
        self._nursery, self._settings, self._fail = nursery, settings, fail
        self._child: Child | None = None
        self._answer = -1

    @property
    def running(self) -> bool:
        """Whether the rows must wait."""
        return self._child is not None

    def start(self) -> None:
        """Starts the check, if there is one."""
        check = self._settings.check
        if check is None:
            return
        self._answer, write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        body = partial(run_check, write, check, self._settings.log)
        self._child = self._nursery.start(CHECK, body, {write}, self._on_exit)
        os.close(write)

    def kill(self) -> None:
        """The node stops: the answer does not matter any more."""
        if self._child is not None:
            self._child.send(signal.SIGKILL)

    def _on_exit(self, code: int) -> None:
        self._child = None
        try:
            refusal = os.read(self._answer, ANSWER_LIMIT).decode("utf-8", "replace")
        except BlockingIOError:
            refusal = ""
        os.close(self._answer)
        if code != Exit.OK:
            self._fail(Exit.SETUP, refusal or f"the check before the start ended with {exit_text(code)}: see the log")


class Sweeper:
    """Keeps a sweeper alive: it cleans up if the supervisor is killed."""

    def __init__(
        self,
        nursery: Nursery,
        directory: RuntimeDirectory,
        limits: Limits,
        changed: Callable[[], None],
        fail: Fail,
    ) -> None:
        self._nursery, self._directory, self._limits = nursery, directory, limits
        self._changed, self._fail = changed, fail
        self._log = get_logger(NAME)
        self._child: Child | None = None
        self._pipe = -1
        self._incarnation = 0
        self._started = 0.0
        self._restart_at: float | None = None
        self._deaths: deque[float] = deque()

    def start(self) -> None:
        """Starts a sweeper that watches a new pipe."""
        self._incarnation += 1
        self._started, self._restart_at = time.time(), None
        read, self._pipe = os.pipe2(os.O_CLOEXEC)
        body = partial(run_sweeper, read, self._directory.path, self._directory.created)
        self._child = self._nursery.start(SWEEPER, body, {read}, self._on_exit, logs=False, dies_with_parent=False)
        os.close(read)
        self._changed()

    def tick(self, now: float) -> None:
        """Replaces a dead sweeper."""
        if self._restart_at is not None and now >= self._restart_at:
            self.start()

    def dismiss(self) -> None:
        """The node ends in order: the sweeper goes without sweeping."""
        self._restart_at = None
        if self._child is None:
            return
        with contextlib.suppress(BrokenPipeError):
            os.write(self._pipe, DONE)
        self._child.send(signal.SIGCONT)
        if not select.select([self._child.pidfd], [], [], LAST_SECONDS)[0]:
            self._child.send(signal.SIGKILL)
        self._child.reap()
        self._child = None

    def entries(self) -> list[ProcessEntry]:
        """Its line of processes.json while it lives."""
        if self._child is None:
            return []
        return [ProcessEntry(SWEEPER, 0, self._child.pid, self._incarnation, self._started, self._child.start_ticks)]

    def _on_exit(self, code: int) -> None:
        self._child = None
        os.close(self._pipe)
        now = time.monotonic()
        self._deaths.append(now)
        while self._deaths[0] < now - self._limits.window:
            self._deaths.popleft()
        self._log.error("process died", name=SWEEPER, why=exit_text(code), incarnation=self._incarnation)
        if len(self._deaths) > self._limits.deaths:
            self._fail(Exit.CRASH_LOOP, f"process {SWEEPER} died {len(self._deaths)} times within a minute")
        else:
            self._restart_at = now + RESTART_PAUSE
        self._changed()
