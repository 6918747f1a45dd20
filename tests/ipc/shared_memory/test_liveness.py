"""The liveness board."""

import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from rollup_node.ipc.shared_memory.liveness import LivenessTable, ProcessState


@pytest.fixture
def board() -> Iterator[LivenessTable]:
    made = LivenessTable(3)
    yield made
    made.close()


def test_a_row_not_started_is_absent(board: LivenessTable) -> None:
    assert (board.incarnation(1), board.state(1), board.beats(1), board.ready(1)) == (0, ProcessState.ABSENT, 0, False)


def test_start_clears_what_the_last_incarnation_left(board: LivenessTable) -> None:
    board.start(1, 1)
    board.beat(1)
    board.set_ready(1)
    assert board.ready(1) and board.beats(1) == 1
    board.set_state(1, ProcessState.DEAD)
    board.start(1, 2)
    assert (board.incarnation(1), board.state(1), board.beats(1), board.beat_ns(1)) == (2, ProcessState.RUNNING, 0, 0)
    assert not board.ready(1)


def test_rows_do_not_touch_each_other(board: LivenessTable) -> None:
    board.start(1, 7)
    board.beat(1)
    board.set_ready(1)
    assert all(board.incarnation(row) == board.beats(row) == board.ready(row) == 0 for row in (0, 2))


def test_beat_is_on_the_monotonic_clock(board: LivenessTable) -> None:
    before = time.monotonic_ns()
    board.beat(0)
    assert before <= board.beat_ns(0) <= time.monotonic_ns()


@pytest.mark.parametrize("row", [-1, 3])
def test_rows_outside_are_refused(board: LivenessTable, row: int) -> None:
    with pytest.raises(IndexError, match="rows 0 to 2"):
        board.incarnation(row)
    with pytest.raises(IndexError, match="rows 0 to 2"):
        board.start(row, 1)


def test_another_process_reads_and_beats(board: LivenessTable) -> None:
    board.start(2, 5)
    code = (
        "from rollup_node.ipc.shared_memory.liveness import LivenessTable\n"
        f"board = LivenessTable(3, {board.fd})\n"
        "assert board.incarnation(2) == 5\n"
        "board.beat(2); board.set_ready(2)\n"
    )
    subprocess.run([sys.executable, "-c", code], pass_fds=[board.fd], check=True, timeout=30)
    assert board.beats(2) == 1 and board.ready(2)
