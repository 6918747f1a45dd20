"""The liveness table."""

import time
from collections.abc import Iterator

import multiprocess
import pytest

from rollup_node.ipc.shared_memory.liveness import LivenessTable


@pytest.fixture
def table() -> Iterator[LivenessTable]:
    table = LivenessTable(3)
    yield table
    table.close()


def test_start_clears_the_cells_of_the_last_incarnation(table: LivenessTable) -> None:
    table.start(1, 1)
    table.beat(1)
    table.set_ready(1)
    table.set_states(1, 4)
    assert table.ready(1) and table.beats(1) == 1 and table.states(1) == 4
    table.start(1, 2)
    assert (table.incarnation(1), table.beats(1), table.last_beat_ns(1)) == (2, 0, 0)
    assert not table.ready(1) and table.states(1) == 0


def test_whose_task_a_process_runs_is_known_after_its_death(table: LivenessTable) -> None:
    """[LIF34]"""
    table.start(1, 1)
    assert table.task_of(1) is None
    for dispatcher in (0, 2):
        table.set_task_of(1, dispatcher)
        assert table.task_of(1) == dispatcher
    table.start(1, 2)
    assert table.task_of(1) is None
    table.set_task_of(1, 2)
    table.set_task_of(1, None)
    assert table.task_of(1) is None


def test_slots_do_not_touch_each_other_and_those_not_started_are_empty(table: LivenessTable) -> None:
    table.start(1, 7)
    table.beat(1)
    table.set_ready(1)
    for slot in (0, 2):
        assert table.incarnation(slot) == table.beats(slot) == table.last_beat_ns(slot) == table.ready(slot) == 0


@pytest.mark.fault("F58")
def test_beat_is_on_the_monotonic_clock(table: LivenessTable) -> None:
    before = time.monotonic_ns()
    table.beat(0)
    assert before <= table.last_beat_ns(0) <= time.monotonic_ns()


@pytest.mark.parametrize("slot", [-1, 3])
def test_slots_outside_are_rejected(table: LivenessTable, slot: int) -> None:
    with pytest.raises(IndexError, match="slots 0 to 2"):
        table.incarnation(slot)
    with pytest.raises(IndexError, match="slots 0 to 2"):
        table.start(slot, 1)


def test_another_process_reads_and_beats(table: LivenessTable) -> None:
    def beat() -> None:
        assert table.incarnation(2) == 5
        table.beat(2)
        table.set_ready(2)

    table.start(2, 5)
    child = multiprocess.get_context("fork").Process(target=beat)
    child.start()
    child.join()
    assert child.exitcode == 0 and table.beats(2) == 1 and table.ready(2)
