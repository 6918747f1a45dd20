"""The programs of a local network as child processes, each with a log file; the kernel ends them with their parent."""

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
    """A program of the network exited by itself; the text names it and quotes the end of its log."""


@dataclass
class ChildProgram:
    """A running program."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    def check(self) -> None:
        """Raises ProgramExited unless the program is running."""
        code = self.process.poll()
        if code is not None:
            tail = self.log.read_text(errors="replace").splitlines()[-TAIL_LINES:]
            raise ProgramExited(
                f"{self.name} exited ({exit_text(code)}); end of its log {self.log}:\n" + "\n".join(tail)
            )


class ChildPrograms:
    """The programs in start order; they are stopped in reverse order."""

    def __init__(self) -> None:
        self._children: list[ChildProgram] = []
        self._libc = ctypes.CDLL(None, use_errno=True)

    def start(self, name: str, command: Sequence[str], log: Path) -> ChildProgram:
        """Starts a program whose output is appended to `log`."""
        parent = os.getpid()

        def tie_to_parent() -> None:
            # The parent may have died between fork and prctl; then no signal ever comes.
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
        """The process ids of all programs by name."""
        return {child.name: child.process.pid for child in self._children}

    def stop(self, seconds: float = 10.0) -> None:
        """Sends SIGTERM to all, last started first, and SIGKILL to those that run after `seconds`."""
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
    """The command that runs a module with this interpreter."""
    return [sys.executable, "-m", module, *arguments]
