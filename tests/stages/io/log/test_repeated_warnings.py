"""Warnings that repeat."""

import pytest

from rollup_node.stages.io.log.logger import get_logger
from rollup_node.stages.io.log.repeated_warnings import EVERY_SECONDS, RepeatedWarnings


@pytest.mark.condition("C15")
def test_one_line_a_minute_says_how_many_were_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    now = 0.0
    warnings = RepeatedWarnings(get_logger("part"), lambda: now)
    for _ in range(300):
        warnings.warn("one", "it failed", error="no")
        now += 0.2
    warnings.warn("two", "another kind")
    warnings.warn("one", "it failed", error="still no")
    now += EVERY_SECONDS
    warnings.warn("one", "it failed", error="again")
    assert capsys.readouterr().err.splitlines() == [
        "warn part: it failed error=no",
        "warn part: another kind",
        "warn part: it failed error=still no repeated=299",
        "warn part: it failed error=again",
    ]
