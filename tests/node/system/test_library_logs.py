"""The standard `logging` and Python's warnings in our log."""

import logging
import warnings
from collections.abc import Iterator

import pytest

from rollup_node.node.system.library_logs import capture_library_logs
from rollup_node.stages.io.log import logger as log
from rollup_node.stages.io.log.logger import Level, Record


@pytest.fixture
def library_lines() -> Iterator[list[Record]]:
    """Yield the records that libraries write while the test runs."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    lines: list[Record] = []
    log.configure("l1", Level.DEBUG, lines.append)
    capture_library_logs(Level.DEBUG)
    yield lines
    logging.captureWarnings(False)
    root.handlers[:], root.level = handlers, level


def test_records_of_libraries_reach_our_log(library_lines: list[Record]) -> None:
    logging.getLogger("aiohttp.client").info("quiet %d", 1)
    logging.getLogger("asyncio").debug("quieter")
    try:
        raise ValueError("boom")
    except ValueError:
        logging.getLogger("asyncio").exception("a task failed")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("old stuff", stacklevel=1)
    first, second, third = library_lines
    assert (first.level, first.component, first.message) == (Level.DEBUG, "aiohttp.client", "quiet 1")
    assert second.level is Level.ERROR
    assert "ValueError: boom" in (second.traceback or "")
    assert (third.level, third.component) == (Level.WARN, "py.warnings")
