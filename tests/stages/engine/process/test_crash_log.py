"""A bug or a critical error leaves the last stimuli in the log, in records that a pipe takes."""

from collections.abc import Iterator

import pytest

from rollup_node.stages.engine.calls.stimulus_log import StimulusLog
from rollup_node.stages.engine.process.crash_log import LINES_A_RECORD, stimuli_logged
from rollup_node.stages.io.log import logger as log
from rollup_node.stages.io.log.logger import Level, Record
from rollup_node.stages.protocol.errors import CriticalError


@pytest.fixture
def records() -> Iterator[list[Record]]:
    """The records that are written to the log."""
    before, found = log.configuration(), list[Record]()
    log.configure("engine", Level.INFO, found.append)
    yield found
    log.configure(*before)


def filled(lines: int) -> StimulusLog:
    stimuli = StimulusLog()
    for number in range(lines):
        stimuli.add(1_000.0 + number, f"call {number}", "forkchoice")
    return stimuli


@pytest.mark.parametrize("error", [CriticalError("contradiction"), KeyError("bug")], ids=["critical", "bug"])
def test_all_lines_are_written_in_their_order(error: Exception, records: list[Record]) -> None:
    stimuli = filled(2 * LINES_A_RECORD + 10)
    with pytest.raises(type(error)), stimuli_logged(stimuli):
        raise error
    assert [record.fields for record in records] == [
        {"from": first, "of": len(stimuli)} for first in (0, LINES_A_RECORD, 2 * LINES_A_RECORD)
    ]
    assert "\n".join(record.traceback or "" for record in records).split("\n") == stimuli.lines()
    assert all(record.level is Level.ERROR and len(record.traceback or "") < 16 << 10 for record in records)


def test_without_an_error_nothing_is_written(records: list[Record]) -> None:
    with stimuli_logged(filled(10)):
        pass
    assert records == []
