"""The process that forks the programs of a local network."""

import os
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rollup_node.tools.devnet import fork_server as servers
from rollup_node.tools.devnet.fork_server import ForkedProgram, ForkServer, fork_server
from tests.support.processes.forked_programs import spawned_fork_server
from tests.support.processes.forking import NAME, SECONDS
from tests.support.processes.leftovers import Leftovers
from tests.support.processes.programs import Program, is_alive, wait_for

ROOT = Path(__file__).parents[3]


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
    with Program(leftovers, *words, PYTHONPATH=str(ROOT)) as program:
        ended = program.wait_for_exit()
    for pid in map(int, ended.out.split()):
        wait_for(lambda pid=pid: not is_alive(pid), f"the end of {pid}")  # type: ignore[misc]


def test_there_is_no_server_beside_a_thread() -> None:
    with ThreadPoolExecutor() as executor:
        executor.submit(int).result()
        with fork_server() as server:
            assert server is None
