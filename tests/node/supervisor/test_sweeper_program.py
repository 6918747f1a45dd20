"""The sweeper's program: small while it waits, and a full Python when it has to clean up."""

import os
import subprocess
import sys
from pathlib import Path

import setproctitle

from rollup_node.node.supervisor import sweeper_program
from rollup_node.node.system.runtime_dir import PROCESSES, open_runtime_directory
from tests.support.processes.programs import wait_for

MAX_PSS = 8_000
"""Of the waiting process, in kB; a copy of the supervisor has twice as much."""


def start(directory: Path) -> tuple["subprocess.Popen[bytes]", int]:
    """The program, which waits, and the write end of its pipe."""
    read, write = os.pipe2(os.O_CLOEXEC)
    titles = os.path.dirname(setproctitle.__file__)
    words = [sys.executable, "-I", "-S", sweeper_program.__file__, str(read), str(directory), "1", titles, *sys.path]
    process = subprocess.Popen(words, pass_fds=(read,))
    os.close(read)
    line = Path(f"/proc/{process.pid}/cmdline")
    wait_for(lambda: line.read_bytes().startswith(b"rollup-node: sweeper"), "the title of the sweeper")
    return process, write


def runtime_directory(tmp_path: Path) -> Path:
    directory = open_runtime_directory(tmp_path / "run", 20)
    directory.write_processes([])
    os.close(directory.lock)
    return directory.path


def test_it_needs_little_and_ends_when_it_is_dismissed(tmp_path: Path) -> None:
    directory = runtime_directory(tmp_path)
    process, pipe = start(directory)
    lines = Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines()
    (pss,) = (int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    assert pss < MAX_PSS
    os.write(pipe, sweeper_program.DISMISSED)
    assert process.wait(20) == 0
    os.close(pipe)
    assert (directory / PROCESSES).exists()


def test_it_cleans_up_when_the_pipe_ends(tmp_path: Path) -> None:
    directory = runtime_directory(tmp_path)
    process, pipe = start(directory)
    os.close(pipe)
    assert process.wait(20) == 0
    assert not directory.exists()
