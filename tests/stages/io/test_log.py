"""Structured log lines."""

from collections.abc import Iterator

import pytest

from rollup_node.stages.io import log
from rollup_node.stages.io.log import Level, Record, get_logger


@pytest.fixture(autouse=True)
def unconfigured() -> None:
    """As a process is before `configure`."""
    log.configure("", Level.WARN, log.plain)


@pytest.fixture
def lines() -> Iterator[list[Record]]:
    """The lines written at debug level by a process named `l1`."""
    written: list[Record] = []
    log.configure("l1", Level.DEBUG, written.append)
    yield written
    log.configure("", Level.WARN, log.plain)


def test_a_line_carries_process_part_and_fields(lines: list[Record]) -> None:
    get_logger("heads").info("new head", number=5, message="a field may have any name")
    (line,) = lines
    assert (line.process, line.part, line.message, line.level) == ("l1", "heads", "new head", Level.INFO)
    assert line.fields == {"number": 5, "message": "a field may have any name"}
    assert line.trace is None


def test_levels_above_the_set_one_are_not_written(lines: list[Record]) -> None:
    logger = get_logger("heads")
    logger.detail("no")
    logger.debug("yes")
    logger.warn("yes")
    logger.error("yes")
    assert [line.level for line in lines] == [Level.DEBUG, Level.WARN, Level.ERROR]
    assert logger.enabled(Level.DEBUG)
    assert not logger.enabled(Level.DETAIL)


def test_silent_writes_nothing(lines: list[Record]) -> None:
    log.configure("l1", Level.SILENT, lines.append)
    get_logger("heads").error("no")
    assert lines == []


def test_a_crash_keeps_its_traceback(lines: list[Record]) -> None:
    try:
        raise ValueError("boom")
    except ValueError as error:
        get_logger("heads").crash("a bug", error, activity="poll")
    assert lines[0].trace is not None
    assert lines[0].trace.startswith("Traceback")
    assert "ValueError: boom" in lines[0].trace


def test_an_unconfigured_process_writes_warnings_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    get_logger("tool").info("quiet")
    get_logger("tool").warn("careful", why="heat")
    assert capsys.readouterr().err == "warn tool: careful why=heat\n"
