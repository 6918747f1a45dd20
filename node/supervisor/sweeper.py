"""The sweeper: a small process that cleans up after a supervisor that was killed and could not dismiss it."""

import contextlib
import os
import select
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from setproctitle import setproctitle

from rollup_node.node.supervisor.child_processes import ChildProcesses, exit_text, log_fork_failure
from rollup_node.node.supervisor.metrics import SUPERVISOR
from rollup_node.node.supervisor.supervised_process import SupervisedProcess, record_death
from rollup_node.node.supervisor.watchdog import RestartPolicy
from rollup_node.node.system.exit_codes import ExitCode, SetupError
from rollup_node.node.system.process_control import STOP_SIGNALS
from rollup_node.node.system.process_table import ProcessSpec
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
        self._children, self._directory = children, directory
        self._changed, self._fail = changed, fail
        self._log = Logger(SUPERVISOR)
        self._process = SupervisedProcess(ProcessSpec(SWEEPER, "", None), 0, -1, policy)
        self._pipe = -1

    def start(self) -> None:
        """Start a sweeper that waits at a new pipe, later where the system lacks what a fork needs."""
        now = time.monotonic()
        self._process.begin_incarnation(now)
        pipe: tuple[int, ...] = ()
        try:
            read, self._pipe = pipe = os.pipe2(os.O_CLOEXEC)
            body = partial(run_sweeper, read, self._directory.path, self._directory.created)
            child = self._children.start(SWEEPER, body, {read}, self._on_exit, logs=False, dies_with_parent=False)
        except OSError as error:
            for fd in pipe:
                os.close(fd)
            log_fork_failure(self._log, SWEEPER, error, FORK_PAUSE)
            self._process.restart_at = now + FORK_PAUSE
            return
        self._process.child = child
        os.close(read)
        self._changed()

    def renew(self) -> None:
        """Replace the sweeper by one that is forked now."""
        self.dismiss()
        self._process.incarnation -= 1
        self.start()

    def tick(self, now: float) -> None:
        """Replace a dead sweeper when it is due."""
        if self._process.restart_at is not None and now >= self._process.restart_at:
            self.start()

    def dismiss(self) -> None:
        """End the sweeper without sweeping, for an orderly end of the node."""
        self._process.restart_at = None
        if (child := self._process.child) is None:
            return
        with contextlib.suppress(BrokenPipeError):
            os.write(self._pipe, DISMISSED)
        child.send_signal(signal.SIGCONT)
        ended = select.poll()
        ended.register(self._pipe, 0)  # an error of the pipe: its reader is gone
        if not ended.poll(DISMISS_SECONDS * 1000):
            child.send_signal(signal.SIGKILL)
        self._children.await_end(child)
        self._process.child = None
        os.close(self._pipe)

    def entry(self) -> ProcessEntry | None:
        """Its entry in processes.json, while it runs."""
        return self._process.entry()

    def _on_exit(self, code: int) -> None:
        process, now = self._process, time.monotonic()
        process.child = None
        os.close(self._pipe)
        too_often = record_death(process.deaths, now, process.policy)
        fields: Fields = {"name": SWEEPER, "reason": exit_text(code), "incarnation": process.incarnation}
        self._log.error("process died", code=Code.PROCESS_DIED.text, **fields)
        if too_often:
            self._fail(ExitCode.CRASH_LOOP, f"process {SWEEPER} died {len(process.deaths)} times within a minute")
        else:
            process.restart_at = now + RESTART_PAUSE
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
