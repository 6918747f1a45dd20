"""The process that forks the programs of a local network, in a program of its own."""

from pathlib import Path

import pytest

from tests.support.processes.forking import has_ended, wait_for
from tests.support.processes.leftovers import Leftovers
from tests.support.processes.programs import Program

ROOT = Path(__file__).parents[3]


def forking(leftovers: Leftovers, case: str) -> Program:
    words = (str(leftovers.folder), case)
    return Program(leftovers, "tests.support.processes.forking", *words, PYTHONPATH=str(ROOT))


@pytest.mark.parametrize("case", ["ends", "signals", "refuses", "full", "killed"])
def test_programs_are_forked(leftovers: Leftovers, case: str) -> None:
    with forking(leftovers, case) as program:
        ended = program.wait_for_exit()
    assert (ended.code, ended.out) == (0, "ok\n"), ended


def test_all_end_with_the_process_that_started_the_server(leftovers: Leftovers) -> None:
    with forking(leftovers, "orphaned") as program:
        ended = program.wait_for_exit()
    for pid in map(int, ended.out.split()):
        wait_for(lambda pid=pid: has_ended(pid), f"the end of {pid}")  # type: ignore[misc]
