"""Commands of `rollup-node` that a server forks: most of their CPU time is that of the imports.

Files of tests that use them start at least one command as a program, too."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from rollup_node.tools.devnet.fork_server import ForkServer
from rollup_node.tools.history import range_task
from tests.support.processes.forked_programs import ForkedProgram
from tests.support.processes.leftovers import Leftovers
from tests.support.processes.programs import WAIT_SECONDS, FinishedProgram

CLI = "rollup_node.node.cli"
STAGES = tuple(f"rollup_node.stages.{role}.process.stage" for role in ("l1", "blobs", "derivation", "compute"))


@contextmanager
def forked_ranges(server: ForkServer) -> Iterator[None]:
    """Has `history run` in this process derive its ranges by forks, which end with the server."""

    def run(command: list[str]) -> tuple[int, range_task._Log]:
        words = command[command.index("history") :]
        words[words.index("--parent") + 1] = str(server.pid)
        imports = ("rollup_node.tools.commands.history_range", *STAGES)
        with open(os.devnull, "wb") as out:
            process = ForkedProgram(server, CLI, words, Path.cwd(), os.environ, imports=imports, stdout=out.fileno())
        assert process.stderr is not None
        log = range_task._Log(process.stderr)
        try:
            return process.wait(), log
        finally:
            log.close()

    with mock.patch.object(range_task, "_run", run):
        yield


class ForkedCommand:
    """A running command; the first word is its name."""

    def __init__(self, server: ForkServer, leftovers: Leftovers, *words: str) -> None:
        imports = (f"rollup_node.tools.commands.{words[0]}", *STAGES)
        folder = Path(leftovers.folder)
        self._out, self._err = (folder / f"command-{id(self)}.{kind}" for kind in ("out", "err"))
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self._process = ForkedProgram(
                server,
                CLI,
                words,
                folder,
                leftovers.environment(),
                imports=imports,
                stdout=out.fileno(),
                stderr=err.fileno(),
            )

    def wait_for_exit(self, seconds: float = WAIT_SECONDS) -> FinishedProgram:
        """Wait for its end; a command that takes longer is killed, and the test fails."""
        try:
            code = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise AssertionError(f"it did not end within {seconds:g} s; {self._err.read_text()[-3000:]}") from None
        return FinishedProgram(code, self._out.read_text(), self._err.read_text())
