"""The precheck: what must end the start is checked once, in a process of its own, before the others [LIF11]."""

import asyncio
import gc
import os
import signal
from collections.abc import Callable
from functools import partial

from setproctitle import setproctitle

from rollup_node.node.runtime.runtime import LAST_LINES_SECONDS, take_over_output
from rollup_node.node.supervisor.child_processes import ChildProcess, ChildProcesses, exit_text
from rollup_node.node.supervisor.settings import PrecheckFunction
from rollup_node.node.system.exit_codes import ExitCode, SetupError
from rollup_node.node.system.log_formats import LogSettings
from rollup_node.node.system.process_control import STOP_SIGNALS
from rollup_node.stages.io.log.logger import Logger
from rollup_node.stages.messages.codes import Code

PRECHECK = "check"
MAX_ERROR_BYTES = 1 << 16


class Precheck:
    """The supervisor's side: starts a process for `check`, if there is one; `fail` gets exit code and error of it."""

    def __init__(
        self,
        children: ChildProcesses,
        check: PrecheckFunction | None,
        log: LogSettings,
        fail: Callable[[int, str], None],
    ) -> None:
        self._children, self._check, self._log, self._fail = children, check, log, fail
        self._child: ChildProcess | None = None
        self._pipe = -1

    @property
    def running(self) -> bool:
        """Whether the other processes must wait."""
        return self._child is not None

    def start(self) -> None:
        """Start the check, if there is one."""
        if self._check is None:
            return
        try:
            self._pipe, write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
            body = partial(run_precheck, write, self._check, self._log)
            self._child = self._children.start(PRECHECK, body, {write}, self._on_exit)
        except OSError as error:
            text = f"the check before the start could not be forked: {error.strerror}: {Code.HOST_LIMIT.remedy}"
            self._fail(ExitCode.SETUP, text)
            return
        os.close(write)

    def kill(self) -> None:
        """Kill the check if it runs: the node stops, so its result is not needed."""
        if self._child is not None:
            self._child.send_signal(signal.SIGKILL)

    def _on_exit(self, code: int) -> None:
        self._child = None
        try:
            error = os.read(self._pipe, MAX_ERROR_BYTES).decode("utf-8", "replace")
        except BlockingIOError:
            error = ""
        os.close(self._pipe)
        if code != ExitCode.OK:
            self._fail(ExitCode.SETUP, error or f"the check before the start ended with {exit_text(code)}: see the log")


def run_precheck(pipe: int, check: PrecheckFunction, log: LogSettings) -> int:
    """Return the body of the process.

    Writes the error into `pipe` if the check fails; the exit code. Stop signals sent to the whole process group are
    ignored: the supervisor handles them, and kills this process."""
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
    setproctitle(f"rollup-node: {PRECHECK}")
    gc.freeze()
    gc.enable()
    writer = take_over_output(PRECHECK, log)
    error = _error_of(check)
    os.write(pipe, error.encode("utf-8", "backslashreplace"))
    writer.drain(LAST_LINES_SECONDS)
    return ExitCode.SETUP if error else ExitCode.OK


def _error_of(check: PrecheckFunction) -> str:
    try:
        asyncio.new_event_loop().run_until_complete(check())
    except SetupError as error:
        return " ".join(str(error).split()) or "the check before the start failed"
    except Exception as error:
        Logger(PRECHECK).crash("the check before the start failed by a bug", error)
        return f"the check before the start failed by a bug ({type(error).__name__}): see the log"
    return ""
