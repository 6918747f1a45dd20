"""The programs of a local network as child processes: each with its log file, and gone when we are gone."""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rollup_node.node.supervisor.child_processes import exit_text

PR_SET_PDEATHSIG = 1
TAIL_LINES = 8


class ProgramExited(RuntimeError):
    """A program of the network ended by itself; the text names it, with the end of its log."""


@dataclass
class ChildProgram:
    """A running program."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    def check(self) -> None:
        """Raises ProgramExited when it is not running any more."""
        code = self.process.poll()
        if code is not None:
            tail = self.log.read_text(errors="replace").splitlines()[-TAIL_LINES:]
            raise ProgramExited(
                f"{self.name} ended with {exit_text(code)}; its log {self.log} ends with:\n" + "\n".join(tail)
            )


class ChildPrograms:
    """All programs in start order; stopped in reverse, each within its time."""

    def __init__(self) -> None:
        self._children: list[ChildProgram] = []
        self._libc = ctypes.CDLL(None, use_errno=True)

    def start(self, name: str, command: Sequence[str], log: Path) -> ChildProgram:
        """Starts a program; its output goes to `log`."""
        parent = os.getpid()

        def tie_to_parent() -> None:
            self._libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
            if os.getppid() != parent:
                os._exit(1)

        with log.open("ab") as output:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                preexec_fn=tie_to_parent,
            )
        child = ChildProgram(name, process, log)
        self._children.append(child)
        return child

    def check(self) -> None:
        """Raises ProgramExited for the first program that is not running."""
        for child in self._children:
            child.check()

    def pids(self) -> dict[str, int]:
        """Process ids of what was started, by name."""
        return {child.name: child.process.pid for child in self._children}

    def stop(self, seconds: float = 10.0) -> None:
        """Asks each to stop, last started first, then kills what remains."""
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
    """The command of one of our own modules."""
    return [sys.executable, "-m", module, *arguments]
