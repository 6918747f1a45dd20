"""Structured log lines."""

import pytest

from rollup_node.stages.io.log import logger as log
from rollup_node.stages.io.log.logger import Level, Logger, Record, parse_level


@pytest.fixture
def lines() -> list[Record]:
    """Return the lines written at debug level by a process named `l1`."""
    written: list[Record] = []
    log.configure("l1", Level.DEBUG, written.append)
    return written


def test_a_line_carries_process_component_and_fields(lines: list[Record]) -> None:
    Logger("heads").info("new head", number=5, message="a field may have any name")
    (line,) = lines
    assert (line.process, line.component, line.message, line.level) == ("l1", "heads", "new head", Level.INFO)
    assert line.fields == {"number": 5, "message": "a field may have any name"}
    assert line.traceback is None
    logger = Logger("heads")
    lines.clear()
    for write in (logger.trace, logger.debug, logger.warn, logger.error):
        write("text")
    log.configure("l1", Level.SILENT, lines.append)
    logger.error("no")
    assert [line.level for line in lines] == [Level.DEBUG, Level.WARN, Level.ERROR], "up to the level that is set"


def test_a_crash_keeps_its_traceback(lines: list[Record]) -> None:
    try:
        raise ValueError("boom")
    except ValueError as error:
        Logger("heads").crash("a bug", error, activity="poll")
    assert lines[0].traceback is not None
    assert lines[0].traceback.startswith("Traceback")
    assert "ValueError: boom" in lines[0].traceback


LEVELS = {
    Level.SILENT: ("silent", "0"),
    Level.ERROR: ("error", "eror", "crit", "1"),
    Level.WARN: ("WARN", "2"),
    Level.INFO: ("info", "3"),
    Level.DEBUG: ("debug", "dbug", "4"),
    Level.TRACE: ("Detail", "trace", "trce", "5"),
}


def test_levels_have_names_numbers_and_aliases() -> None:
    assert {
        level: tuple(text for text in texts if parse_level(text) is level) for level, texts in LEVELS.items()
    } == LEVELS


def test_an_unknown_level_is_refused_and_an_unconfigured_process_warns_on_stderr(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Logger("tool").info("quiet")
    Logger("tool").warn("careful", why="heat")
    assert capsys.readouterr().err == "warn tool: careful why=heat\n"
    with pytest.raises(ValueError, match="unknown log level 'loud': use one of silent, error, warn, info, debug, det"):
        parse_level("loud")
