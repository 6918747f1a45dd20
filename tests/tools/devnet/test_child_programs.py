"""The programs of a network: one that exits is reported with the end of its log, and all are stopped."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from rollup_node.tools.devnet.child_programs import MAX_STARTS_A_MINUTE, ChildPrograms, ProgramExited, python
from rollup_node.tools.devnet.fork_server import ForkServer

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]
STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"


def test_a_program_that_exits_is_reported_with_its_last_lines(tmp_path: Path) -> None:
    children = ChildPrograms()
    log = tmp_path / "log"
    child = children.start("verifier node", [sys.executable, "-c", "print('last words'); exit(3)"], log)
    child.process.wait(50)
    with pytest.raises(ProgramExited, match=r"^verifier node exited \(exit code 3\); end of its log .*:\nlast words$"):
        children.check()
    children.stop()


def test_all_are_stopped_and_those_that_ignore_it_are_killed(tmp_path: Path) -> None:
    children = ChildPrograms()
    processes = {name: children.start(name, SLEEP, tmp_path / name).process for name in ("one", "other")}
    children.check()
    assert children.pids() == {name: process.pid for name, process in processes.items()}
    stubborn = children.start("stubborn", [sys.executable, "-c", STUBBORN], tmp_path / "stubborn")
    while "up" not in (tmp_path / "stubborn").read_text():
        stubborn.check()
    children.stop(0.2)
    assert [process.returncode for process in (*processes.values(), stubborn.process)] == [-15, -15, -9]


def test_a_program_is_started_again_a_few_times_a_minute(tmp_path: Path) -> None:
    lines: list[str] = []
    children = ChildPrograms(lines.append)
    child = children.start("node", [sys.executable, "-c", "exit(7)"], tmp_path / "log", is_restarted=True)
    with pytest.raises(ProgramExited, match=r"^node exited \(exit code 7\)"):
        for _ in range(MAX_STARTS_A_MINUTE + 1):
            child.process.wait(50)
            children.check()
    assert lines == ["node exited (exit code 7) and was started again"] * (MAX_STARTS_A_MINUTE - 1)
    children.stop()


class Forks:
    """A fork server that starts a shell in place of each program, and notes what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[object, ...]] = []

    def start(self, name: str, module: str, arguments: Sequence[str], log: Path) -> Any:
        self.asked.append((name, module, list(arguments), log))
        return subprocess.Popen(["/bin/sh", "-c", "exit 3"])


def test_programs_of_the_network_are_forked_and_others_are_commands(tmp_path: Path) -> None:
    forks, log = Forks(), tmp_path / "log"
    children = ChildPrograms(forks=cast(ForkServer, forks))
    child = children.start("l1", python("rollup_node.tools.devnet.l1", "--port", "0"), log, is_restarted=True)
    assert child.process.wait(50) == 3
    children.check()
    assert forks.asked == [("l1", "rollup_node.tools.devnet.l1", ["--port", "0"], log)] * 2
    node = children.start("node", python("rollup_node", "--version"), tmp_path / "node")
    own = children.start("own", [sys.executable, "-c", "print('own')"], tmp_path / "own")
    assert (node.process.wait(50), own.process.wait(50)) == (0, 0) and len(forks.asked) == 2
    assert "version" in (tmp_path / "node").read_text() and (tmp_path / "own").read_text() == "own\n"
    children.stop()
