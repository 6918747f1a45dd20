"""The programs of a local network as child processes, each with a log file; the kernel ends them with their parent."""

import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from rollup_node.tools.devnet.fork_server import PROGRAMS, ForkServer, RunningProgram, die_with_parent

TAIL_LINES = 8
MAX_STARTS_A_MINUTE = 5


class ProgramExited(RuntimeError):
    """A program of the network exited by itself; the text names it and quotes the end of its log."""


@dataclass
class ChildProgram:
    """A program with its command; `starts` are the monotonic times of its last starts."""

    name: str
    command: Sequence[str]
    log: Path
    process: RunningProgram
    is_restarted: bool
    is_stopped: bool = False
    starts: deque[float] = field(default_factory=lambda: deque(maxlen=MAX_STARTS_A_MINUTE))

    def check(self) -> None:
        """Raise ProgramExited unless the program is running, or may be started again."""
        code = self.process.poll()
        often = len(self.starts) == MAX_STARTS_A_MINUTE and time.monotonic() < self.starts[0] + 60
        if code is not None and (often or not self.is_restarted):
            tail = self.log.read_text(errors="replace").splitlines()[-TAIL_LINES:]
            raise ProgramExited(
                f"{self.name} exited ({_exit_text(code)}); end of its log {self.log}:\n" + "\n".join(tail)
            )


class ChildPrograms:
    """The programs in start order; they are stopped in reverse order.

    With `forks` those of the network itself are started by it."""

    def __init__(self, on_restart: Callable[[str], None] = lambda text: None, forks: ForkServer | None = None) -> None:
        self.on_restart = on_restart
        self._children: list[ChildProgram] = []
        self._forks = forks

    def start(self, name: str, command: Sequence[str], log: Path, *, is_restarted: bool = False) -> ChildProgram:
        """Start a program whose output is appended to `log`.

        With `is_restarted` it is started again when it has exited, at most MAX_STARTS_A_MINUTE times a minute."""
        child = ChildProgram(name, command, log, self._spawn(name, command, log), is_restarted)
        child.starts.append(time.monotonic())
        self._children.append(child)
        return child

    def _spawn(self, name: str, command: Sequence[str], log: Path) -> RunningProgram:
        module = module_of(command)
        if self._forks is not None and module in PROGRAMS:
            return self._forks.start(name, module, command[len(python(module)) :], log)
        parent = os.getpid()
        with log.open("ab") as output:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                preexec_fn=partial(die_with_parent, parent),
            )

    def check(self) -> None:
        """Start exited programs again, and says so by `on_restart`; raises ProgramExited for one that may not be."""
        for child in self._children:
            if child.is_stopped:
                continue
            child.check()
            code = child.process.poll()
            if code is not None:
                self._restart(child)
                self.on_restart(f"{child.name} exited ({_exit_text(code)}) and was started again")

    @contextmanager
    def stopped(self, name: str) -> Iterator[None]:
        """Kill a program at once, without a chance to clean up, and start it again at the end of the context."""
        self.suspend(name, signal.SIGKILL).wait()
        try:
            yield
        finally:
            self.resume(name)

    def suspend(self, name: str, number: signal.Signals) -> RunningProgram:
        """Send a signal that ends a program, which is not started again before `resume`; the process to wait for."""
        child = self._child(name)
        child.is_stopped = True
        child.process.send_signal(number)
        return child.process

    def resume(self, name: str) -> None:
        """Start a suspended program again; nothing once all are being stopped."""
        if self._children:
            child = self._child(name)
            child.is_stopped = False
            self._restart(child)

    def _child(self, name: str) -> ChildProgram:
        return next(child for child in self._children if child.name == name)

    def _restart(self, child: ChildProgram) -> None:
        if child not in self._children:  # all are being stopped
            return
        child.process = self._spawn(child.name, child.command, child.log)
        child.starts.append(time.monotonic())

    def pids(self) -> dict[str, int]:
        """Return the process ids of all programs by name."""
        return {child.name: child.process.pid for child in self._children}

    def stop(self, seconds: float = 10.0) -> None:
        """Send SIGTERM to all, last started first, and SIGKILL to those that run after `seconds`."""
        for child in reversed(self._children):
            if child.process.poll() is None:
                child.process.terminate()
        deadline = time.monotonic() + seconds
        for child in reversed(self._children):
            try:
                child.process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                child.process.kill()
                child.process.wait()
        self._children.clear()


def python(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module with this interpreter."""
    return [sys.executable, "-m", module, *arguments]


def module_of(command: Sequence[str]) -> str:
    """Return the module that a command runs; empty for another program."""
    return command[2] if list(command[:2]) == python("")[:2] else ""


def _exit_text(code: int) -> str:
    # Only where a program has exited: it brings multiprocess with it.
    from rollup_node.node.supervisor.child_processes import exit_text

    return exit_text(code)
