"""The programs of a network, one that exits is reported with the end of its log, and the process that forks them."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import pytest

from rollup_node.tools.devnet import fork_server as servers
from rollup_node.tools.devnet.child_programs import MAX_STARTS_A_MINUTE, ChildPrograms, ProgramExited, python
from rollup_node.tools.devnet.fork_server import ForkedProgram, ForkServer, fork_server
from tests.support.processes.forked_programs import spawned_fork_server
from tests.support.processes.forking import NAME, SECONDS
from tests.support.processes.leftovers import Leftovers
from tests.support.processes.programs import Program, is_alive, wait_for

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


class Case:
    """A server, and the log of its programs."""

    def __init__(self, server: ForkServer, log: Path) -> None:
        self.server, self.log = server, log

    def start(self, *words: str) -> ForkedProgram:
        return self.server.start("a program", NAME, words, self.log)

    def running(self) -> ForkedProgram:
        program = self.start("run")
        wait_for(lambda: "runs" in self.log.read_text(), "it runs")
        return program


@pytest.fixture
def case(fork_server: ForkServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Case:
    monkeypatch.setattr(servers, "PROGRAMS", {NAME: "tests.support.processes.forking"})
    return Case(fork_server, tmp_path / "log")


def test_what_a_program_has_from_its_start_and_how_it_ends(case: Case) -> None:
    assert [case.start(word).wait(SECONDS) for word in ("0", "7", "exit", "bug")] == [0, 7, 5, 1]
    assert "ValueError: a bug" in case.log.read_text()
    case.log.write_text("")
    assert case.start("about", "error").wait(SECONDS) == 0
    said, complaint = case.log.read_text().splitlines()
    assert complaint == "said on stderr"
    assert said == f"{case.server.pid} True ['0', '1', '2'] rollup-node devnet: a program"


def test_without_pidfds_a_program_is_looked_at(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """[LIF28]"""

    def deny(_: int) -> int:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "pidfd_open", deny)
    assert case.start("7").wait(SECONDS) == 7
    program = case.running()
    with pytest.raises(subprocess.TimeoutExpired):
        program.wait(0.05)
    program.kill()
    assert program.wait(SECONDS) == -signal.SIGKILL


def test_a_program_ends_by_a_signal(case: Case) -> None:
    program = case.running()
    assert program.poll() is None and program.returncode is None
    with pytest.raises(subprocess.TimeoutExpired):
        program.wait(0.01)
    program.terminate()
    assert program.wait(SECONDS) == program.poll() == program.returncode == -signal.SIGTERM
    program.kill()
    case.log.unlink()
    other = case.running()
    other.kill()
    assert other.wait() == -signal.SIGKILL


def test_a_log_that_cannot_be_opened_and_one_on_a_full_disk(case: Case) -> None:
    log, case.log = case.log, case.log / "no folder"
    with pytest.raises(FileNotFoundError):
        case.start("0")
    case.log = Path("/dev/full")
    assert case.start("about").wait(SECONDS) == 1
    case.log = log
    assert case.start("7").wait(SECONDS) == 7


def test_programs_end_with_their_server(case: Case) -> None:
    with spawned_fork_server() as case.server:
        program = case.running()
        os.kill(case.server.pid, signal.SIGKILL)
        assert program.wait(SECONDS) == -signal.SIGKILL
        with pytest.raises(OSError):
            case.start("0")


def test_all_end_with_the_process_that_started_the_server(leftovers: Leftovers) -> None:
    words = ("tests.support.processes.forking", str(leftovers.folder))
    with Program(leftovers, *words) as program:
        ended = program.wait_for_exit()
    for pid in map(int, ended.out.split()):
        wait_for(lambda pid=pid: not is_alive(pid), f"the end of {pid}")  # type: ignore[misc]


def test_there_is_no_server_beside_a_thread() -> None:
    with ThreadPoolExecutor() as executor:
        executor.submit(int).result()
        with fork_server() as server:
            assert server is None
