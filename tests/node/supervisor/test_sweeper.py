"""What a killed supervisor leaves behind."""

import os
import signal
import time
from pathlib import Path

import multiprocess
import pytest

from rollup_node.node.supervisor.sweeper import DISMISSED, run_sweeper
from rollup_node.node.system.runtime_dir import open_runtime_directory
from tests.support.processes.leftovers import Leftovers
from tests.support.processes.toy_harness import StartNode


def test_a_killed_supervisor_leaves_nothing(start: StartNode, leftovers: Leftovers) -> None:
    node = start().wait_until_ready()
    directory, processes = node.directory, node.processes()
    os.kill(processes["copy-0"]["pid"], signal.SIGSTOP)
    node.order("left", "spin")
    node.wait_for_line("toy acts", "left")
    node.program.kill()
    node.program.wait()
    assert leftovers.wait_until_gone() == []
    assert not directory.exists()


@pytest.mark.parametrize("pause", [0.0, 0.003, 0.01, 0.03])
def test_a_supervisor_killed_while_it_starts_leaves_nothing(
    start: StartNode, leftovers: Leftovers, pause: float
) -> None:
    node = start({"precheck": ""})
    node.wait_for_line("starting node")
    time.sleep(pause)
    node.program.kill()
    node.program.wait()
    assert leftovers.wait_until_gone() == []


def test_a_killed_supervisor_leaves_a_given_directory(start: StartNode, leftovers: Leftovers) -> None:
    value = leftovers.folder / "run"
    value.mkdir()
    node = start({"runtime_dir": str(value)}).wait_until_ready()
    node.program.kill()
    node.program.wait()
    assert leftovers.wait_until_gone() == []
    assert list(value.iterdir()) == []


def test_a_node_killed_with_its_sweeper_is_swept_by_the_next(start: StartNode, leftovers: Leftovers) -> None:
    value = leftovers.folder / "run"
    node = start({"runtime_dir": str(value), "restart_policy": {"stopped": 60.0}}).wait_until_ready()
    sweeper = node.processes()["sweeper"]["pid"]
    os.kill(sweeper, signal.SIGSTOP)
    node.program.kill()
    node.program.wait()
    os.kill(sweeper, signal.SIGKILL)
    assert (value / "processes.json").exists()
    again = start({"runtime_dir": str(value)}).wait_until_ready()
    again.stop()


def test_it_is_forked_again_when_all_is_loaded(start: StartNode) -> None:
    """So it shares its memory with the others, and there is one sweeper at any time."""
    node = start().wait_until_ready()
    processes = node.processes()
    assert processes["sweeper"]["incarnation"] == 1
    supervisor = node.program.pid
    children = Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split()
    assert set(map(int, children)) == {entry["pid"] for entry in processes.values()} - {supervisor}
    assert processes["sweeper"]["started"] >= processes["supervisor"]["started"]
    node.stop()


@pytest.mark.parametrize("word", [DISMISSED, b""])
def test_it_cleans_up_unless_it_is_dismissed(tmp_path: Path, word: bytes) -> None:
    directory = open_runtime_directory(tmp_path / "run", 20)
    directory.write_processes([])
    os.close(directory.lock)
    read, write = os.pipe()
    os.write(write, word)
    os.close(write)
    sweeper = multiprocess.get_context("fork").Process(target=run_sweeper, args=(read, directory.path, True))
    sweeper.start()
    os.close(read)
    sweeper.join()
    assert sweeper.exitcode == 0
    assert directory.path.exists() == (word == DISMISSED)
