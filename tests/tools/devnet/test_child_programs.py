"""The programs of a network: one that exits is reported with the end of its log, and all are stopped."""

import sys
from pathlib import Path

import pytest

from rollup_node.tools.devnet.child_programs import MAX_STARTS_A_MINUTE, ChildPrograms, ProgramExited

STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"


def test_a_program_that_exits_is_reported_with_its_last_lines(tmp_path: Path) -> None:
    children = ChildPrograms()
    log = tmp_path / "log"
    child = children.start("verifier node", [sys.executable, "-c", "print('last words'); exit(3)"], log)
    child.process.wait(50)
    with pytest.raises(ProgramExited, match=r"^verifier node exited \(exit code 3\); end of its log .*:\nlast words$"):
        children.check()
    children.stop()


def test_all_are_stopped(tmp_path: Path) -> None:
    children = ChildPrograms()
    sleep = [sys.executable, "-c", "import time; time.sleep(60)"]
    processes = {name: children.start(name, sleep, tmp_path / name).process for name in ("one", "other")}
    children.check()
    assert children.pids() == {name: process.pid for name, process in processes.items()}
    children.stop(30.0)
    assert [process.returncode for process in processes.values()] == [-15, -15]


def test_a_program_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    children = ChildPrograms()
    log = tmp_path / "stubborn"
    stubborn = children.start("stubborn", [sys.executable, "-c", STUBBORN], log)
    while "up" not in log.read_text():
        stubborn.check()
    children.stop(0.2)
    assert stubborn.process.returncode == -9


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


def test_a_program_is_killed_for_a_while(tmp_path: Path) -> None:
    children = ChildPrograms()
    child = children.start("node", [sys.executable, "-c", "import time; time.sleep(60)"], tmp_path / "log")
    before = child.process
    with children.stopped("node"):
        assert before.returncode == -9
        children.check()
        assert child.process is before, "nobody starts it meanwhile"
    assert child.process is not before and child.process.poll() is None
    with children.stopped("node"):
        children.stop()
    assert child.process.returncode == -9, "no program starts once all were stopped"
