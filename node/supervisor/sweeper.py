"""The sweeper: a small process that cleans up after a supervisor that was killed and could not dismiss it."""

import contextlib
import os
import select
import signal
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path

from setproctitle import setproctitle

from rollup_node.node.supervisor.child_processes import ChildProcess, ChildProcesses, exit_text, log_fork_failure
from rollup_node.node.supervisor.metrics import SUPERVISOR
from rollup_node.node.supervisor.supervised_process import record_death
from rollup_node.node.supervisor.watchdog import RestartPolicy
from rollup_node.node.system.exit_codes import ExitCode, SetupError
from rollup_node.node.system.process_control import STOP_SIGNALS
from rollup_node.node.system.runtime_dir import RuntimeDirectory, remove, take_lock
from rollup_node.stages.io.log.logger import Logger
from rollup_node.stages.io.task import ProcessEntry
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.log_fields import Fields

SWEEPER = "sweeper"
DISMISSED = b"."
RESTART_PAUSE, FORK_PAUSE = 0.1, 5.0
DISMISS_SECONDS = 1.0
LOCK_TIMEOUT = 2.0


class Sweeper:
    """Keep a sweeper running; `changed` is called at starts and deaths, `fail` with code and error at too many."""

    def __init__(
        self,
        children: ChildProcesses,
        directory: RuntimeDirectory,
        policy: RestartPolicy,
        changed: Callable[[], None],
        fail: Callable[[int, str], None],
    ) -> None:
        self._children, self._directory, self._policy = children, directory, policy
        self._changed, self._fail = changed, fail
        self._log = Logger(SUPERVISOR)
        self._child: ChildProcess | None = None
        self._pipe = -1
        self._incarnation = 0
        self._started = 0.0
        self._restart_at: float | None = None
        self._deaths: deque[float] = deque()

    def start(self) -> None:
        """Start a sweeper that waits at a new pipe, later where the system lacks what a fork needs."""
        self._incarnation += 1
        self._started, self._restart_at = time.time(), None
        pipe: tuple[int, ...] = ()
        try:
            read, self._pipe = pipe = os.pipe2(os.O_CLOEXEC)
            body = partial(run_sweeper, read, self._directory.path, self._directory.created)
            self._child = self._children.start(SWEEPER, body, {read}, self._on_exit, logs=False, dies_with_parent=False)
        except OSError as error:
            for fd in pipe:
                os.close(fd)
            log_fork_failure(self._log, SWEEPER, error, FORK_PAUSE)
            self._restart_at = time.monotonic() + FORK_PAUSE
            return
        os.close(read)
        self._changed()

    def renew(self) -> None:
        """Replace the sweeper by one that is forked now."""
        self.dismiss()
        self._incarnation -= 1
        self.start()

    def tick(self, now: float) -> None:
        """Replace a dead sweeper when it is due."""
        if self._restart_at is not None and now >= self._restart_at:
            self.start()

    def dismiss(self) -> None:
        """End the sweeper without sweeping, for an orderly end of the node."""
        self._restart_at = None
        if self._child is None:
            return
        with contextlib.suppress(BrokenPipeError):
            os.write(self._pipe, DISMISSED)
        self._child.send_signal(signal.SIGCONT)
        ended = select.poll()
        ended.register(self._pipe, 0)  # an error of the pipe: its reader is gone
        if not ended.poll(DISMISS_SECONDS * 1000):
            self._child.send_signal(signal.SIGKILL)
        self._children.await_end(self._child)
        self._child = None
        os.close(self._pipe)

    def entries(self) -> list[ProcessEntry]:
        """Its entry in processes.json, while it runs."""
        if self._child is None:
            return []
        return [ProcessEntry(SWEEPER, 0, self._child.pid, self._incarnation, self._started, self._child.start_ticks)]

    def _on_exit(self, code: int) -> None:
        self._child = None
        os.close(self._pipe)
        now = time.monotonic()
        too_often = record_death(self._deaths, now, self._policy)
        fields: Fields = {"name": SWEEPER, "reason": exit_text(code), "incarnation": self._incarnation}
        self._log.error("process died", code=Code.PROCESS_DIED.text, **fields)
        if too_often:
            self._fail(ExitCode.CRASH_LOOP, f"process {SWEEPER} died {len(self._deaths)} times within a minute")
        else:
            self._restart_at = now + RESTART_PAUSE
        self._changed()


def run_sweeper(pipe: int, directory: Path, created: bool) -> int:
    """Wait for the end of `pipe`, whose write end only the supervisor has; without DISMISSED it died: clean up."""
    os.setsid()
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    setproctitle(f"rollup-node: {SWEEPER}")
    if os.read(pipe, 1) != DISMISSED:
        clean_up(directory, created)
    return ExitCode.OK


def clean_up(directory: Path, created: bool) -> None:
    """Sweep the directory of a dead supervisor, unless another node has taken it over."""
    try:
        lock = take_lock(directory, LOCK_TIMEOUT)
    except SetupError:
        return
    with contextlib.suppress(OSError):
        remove(directory, created)
    os.close(lock)
