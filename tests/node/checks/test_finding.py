"""Findings, and what a start makes of them."""

import pytest

from rollup_node.node.checks.finding import FindingLevel, error, not_checked, ok, require, warning
from rollup_node.node.system.exit_codes import SetupError
from rollup_node.stages.io.log.logger import get_logger
from rollup_node.stages.messages.codes import Code


def test_the_remedy_is_that_of_the_code_unless_there_is_a_better_one() -> None:
    assert warning("disk", Code.DISK, "1 GiB").remedy == Code.DISK.remedy
    assert error("disk", Code.DISK, "1 GiB", "do this").remedy == "do this"
    assert ok("disk", "1 GiB").remedy == ""
    skipped = not_checked("disk", "it is gone")
    assert (skipped.level, skipped.text) == (FindingLevel.NOT_CHECKED, "it is gone")


def test_a_start_logs_warnings_and_ends_at_the_first_error(capsys: pytest.CaptureFixture[str]) -> None:
    findings = [
        ok("a", "fine"),
        warning("b", Code.CLOCK, "clocks differ"),
        error("c", Code.DISK, "no room"),
        error("d", Code.L1_CHAIN, "another"),
    ]
    with pytest.raises(SetupError, match=rf"^no room: {Code.DISK.remedy} \(DISK\)$"):
        require(findings, get_logger("start"))
    log = capsys.readouterr().err
    assert "clocks differ" in log and "CLOCK" in log and Code.CLOCK.remedy in log and "fine" not in log
