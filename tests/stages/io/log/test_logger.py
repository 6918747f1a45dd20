"""Structured log lines."""

import pytest

from rollup_node.stages.io.log import logger as log
from rollup_node.stages.io.log.logger import Level, Record, get_logger, parse_level, set_level_of_node


@pytest.fixture
def lines() -> list[Record]:
    """Return the lines written at debug level by a process named `l1`."""
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


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("silent", Level.SILENT),
        ("0", Level.SILENT),
        ("error", Level.ERROR),
        ("eror", Level.ERROR),
        ("crit", Level.ERROR),
        ("1", Level.ERROR),
        ("WARN", Level.WARN),
        ("2", Level.WARN),
        ("info", Level.INFO),
        ("3", Level.INFO),
        ("dbug", Level.DEBUG),
        ("debug", Level.DEBUG),
        ("4", Level.DEBUG),
        ("Detail", Level.TRACE),
        ("trace", Level.TRACE),
        ("trce", Level.TRACE),
        ("5", Level.TRACE),
    ],
)
def test_levels_have_names_numbers_and_aliases(text: str, level: Level) -> None:
    assert parse_level(text) is level


def test_an_unknown_level_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown log level 'loud': use one of silent, error, warn, info, debug, det"):
        parse_level("loud")


def test_a_new_level_is_passed_on() -> None:
    written: list[Record] = []
    shared: list[Level] = []
    log.configure("rpc", Level.INFO, written.append, shared.append)
    set_level_of_node(Level.DEBUG)
    get_logger("rpc").debug("yes")
    assert shared == [Level.DEBUG]
    log.set_level(Level.WARN)
    get_logger("rpc").info("no")
    assert [line.message for line in written] == ["yes"] and shared == [Level.DEBUG]
