"""A condition that lasts is a line when it begins, one a minute, and one when it ends [LOG15]."""

import pytest

from rollup_node.stages.io.log import lasting_conditions
from rollup_node.stages.io.log import logger as log
from rollup_node.stages.io.log.logger import Logger
from rollup_node.stages.messages.codes import Code


@pytest.mark.condition("C15")
def test_a_line_a_minute_with_counts_and_one_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    """Another code is a line at once."""
    log.set_level(log.Level.INFO)
    now = 0.0
    condition = lasting_conditions.LastingCondition(Logger("part"), lambda: now)
    condition.end("found")
    for _ in range(2):
        for _ in range(300):
            condition.report(Code.BLOB_NO_SOURCE, "nobody has them", answer="no")
            now += 0.5
        condition.end("found", l1_block=5)
        condition.end("found", l1_block=5)
    lines = capsys.readouterr().err.splitlines()
    for code in (Code.BLOB_NOT_FOUND, Code.BLOB_NOT_FOUND, Code.BLOB_CUSTODY, Code.BLOB_CUSTODY):
        condition.report(code, "nobody has them")
    not_found, custody = capsys.readouterr().err.splitlines()
    assert "code=BLOB-NOT-FOUND" in not_found and "code=BLOB-CUSTODY waited=0s tried=3 suppressed=1" in custody
    first = "warn part: nobody has them code=BLOB-NO-SOURCE answer=no"
    remedy = f"do={Code.BLOB_NO_SOURCE.remedy}"
    once = [
        f"{first} {remedy}",
        f"{first} waited=1m0s tried=121 suppressed=119 {remedy}",
        f"{first} waited=2m0s tried=241 suppressed=119 {remedy}",
        "info part: found code=BLOB-NO-SOURCE l1_block=5 waited=2m30s tried=300",
    ]
    assert lasting_conditions.EVERY_SECONDS == 60.0
    assert len(lasting_conditions.shortened("x" * 10**6)) == lasting_conditions.MAX_TEXT + 3
    assert lines == once * 2


class Several:
    """The conditions of several tasks with a clock that stands still."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        log.set_level(log.Level.INFO)
        self.now = 0.0
        self.conditions = lasting_conditions.LastingConditions(Logger("part"), lambda: self.now)
        self._capsys = capsys

    def lines(self) -> list[str]:
        """Return the lines since the last call, without the remedy."""
        return [line.partition(" do=")[0] for line in self._capsys.readouterr().err.splitlines()]


@pytest.fixture
def several(capsys: pytest.CaptureFixture[str]) -> Several:
    return Several(capsys)


@pytest.mark.condition("C15")
def test_sources_that_fail_alike_share_their_lines(several: Several) -> None:
    for _ in range(62):
        for source in ("head", "finality"):
            several.conditions.report(source, Code.L1_UNREACHABLE, "away", task=source)
        several.now += 1
    several.conditions.end("head", "recovered")
    several.conditions.end("finality", "recovered", task="finality")
    several.conditions.end("finality", "recovered")
    assert several.lines() == [
        "warn part: away code=L1-UNREACHABLE task=head",
        "warn part: away code=L1-UNREACHABLE task=head waited=1m0s tried=121 suppressed=119",
        "info part: recovered code=L1-UNREACHABLE task=finality waited=1m2s tried=124",
    ]


def test_a_source_that_fails_by_another_cause_leaves_its_condition(several: Several) -> None:
    """[FSR12] Of reasons of one code one does not suppress the first line of another."""
    several.conditions.report("head", Code.L1_UNREACHABLE, "away")
    several.conditions.report("head", Code.L1_THROTTLED, "busy")
    several.conditions.end("head", "recovered")
    assert several.lines() == [
        "warn part: away code=L1-UNREACHABLE",
        "warn part: busy code=L1-THROTTLED",
        "info part: recovered code=L1-THROTTLED waited=0s tried=1",
    ]
    for reason in ("future", "head order", "future", "head order"):
        several.conditions.report("source", Code.FOLLOW_SOURCE, "refused", reason=reason)
        several.now += 1
    several.conditions.end("source", "recovered")
    refused = "warn part: refused code=FOLLOW-SOURCE reason="
    assert several.lines() == [f"{refused}future", f"{refused}head order"]


def test_a_condition_that_comes_and_goes_is_a_line_a_minute(several: Several) -> None:
    for _ in range(120):
        several.conditions.report("head", Code.L1_UNREACHABLE, "away")
        several.conditions.end("head", "recovered")
        several.now += 1
    lines = several.lines()
    assert [line.split()[0] for line in lines] == ["warn", "info"] * 2
    assert lines[2] == "warn part: away code=L1-UNREACHABLE suppressed=59"


@pytest.mark.condition("C15")
def test_one_line_a_minute_says_how_many_were_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    now = 0.0
    warnings = lasting_conditions.RepeatedWarnings(Logger("part"), lambda: now)
    for _ in range(300):
        warnings.warn("one", "it failed", error="no")
        now += 0.2
    warnings.warn("two", "another kind")
    warnings.warn("one", "it failed", error="still no")
    now += lasting_conditions.EVERY_SECONDS
    warnings.warn("one", "it failed", error="again")
    assert capsys.readouterr().err.splitlines() == [
        "warn part: it failed error=no",
        "warn part: another kind",
        "warn part: it failed error=still no repeated=299",
        "warn part: it failed error=again",
    ]
