"""Structured log lines."""

import pytest

from rollup_node.stages.io import log
from rollup_node.stages.io.log import Level, Record, get_logger


@pytest.fixture
def lines() -> list[Record]:
    """The lines written at debug level by a process named `l1`."""
    written: list[Record] = []
    log.configure("l1", Level.DEBUG, written.append)
    return written


def test_a_line_carries_process_component_and_fields(lines: list[Record]) -> None:
    get_logger("heads").info("new head", number=5, message="a field may have any name")
    (line,) = lines
    assert (line.process, line.component, line.message, line.level) == ("l1", "heads", "new head", Level.INFO)
    assert line.fields == {"number": 5, "message": "a field may have any name"}
    assert line.traceback is None


def test_levels_above_the_set_one_are_not_written(lines: list[Record]) -> None:
    logger = get_logger("heads")
    logger.trace("no")
    logger.debug("yes")
    logger.warn("yes")
    logger.error("yes")
    assert [line.level for line in lines] == [Level.DEBUG, Level.WARN, Level.ERROR]


def test_silent_writes_nothing(lines: list[Record]) -> None:
    log.configure("l1", Level.SILENT, lines.append)
    get_logger("heads").error("no")
    assert lines == []


def test_a_crash_keeps_its_traceback(lines: list[Record]) -> None:
    try:
        raise ValueError("boom")
    except ValueError as error:
        get_logger("heads").crash("a bug", error, activity="poll")
    assert lines[0].traceback is not None
    assert lines[0].traceback.startswith("Traceback")
    assert "ValueError: boom" in lines[0].traceback


def test_an_unconfigured_process_writes_warnings_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    get_logger("tool").info("quiet")
    get_logger("tool").warn("careful", why="heat")
    assert capsys.readouterr().err == "warn tool: careful why=heat\n"


def test_the_most_verbose_level_is_named_as_its_option_value() -> None:
    assert [level.label for level in Level] == ["silent", "error", "warn", "info", "debug", "detail"]


def test_a_configuration_can_be_restored(lines: list[Record]) -> None:
    before = log.configuration()
    log.configure("rpc", Level.ERROR, lambda record: None)
    log.configure(*before)
    get_logger("heads").info("restored")
    assert [line.process for line in lines] == ["l1"]
