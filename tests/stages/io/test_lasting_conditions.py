"""A condition that lasts is a line when it begins, one a minute, and one when it ends [LOG15]."""

import pytest

from rollup_node.stages.io import log
from rollup_node.stages.io.lasting_conditions import EVERY_SECONDS, LastingCondition
from rollup_node.stages.io.log import get_logger
from rollup_node.stages.messages.codes import Code


def test_a_line_a_minute_with_counts_and_one_at_the_end(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "_configuration", log.configuration()._replace(level=log.Level.INFO))
    now = 0.0
    condition = LastingCondition(get_logger("part"), lambda: now)
    condition.end("found")
    for _ in range(2):
        for _ in range(300):
            condition.report(Code.BLOB_NO_SOURCE, "nobody has them", answer="no")
            now += 0.5
        condition.end("found", l1_block=5)
        condition.end("found", l1_block=5)
    lines = capsys.readouterr().err.splitlines()
    first = "warn part: nobody has them code=BLOB-NO-SOURCE answer=no"
    remedy = f"do={Code.BLOB_NO_SOURCE.remedy}"
    once = [
        f"{first} {remedy}",
        f"{first} waited=60s tried=121 suppressed=119 {remedy}",
        f"{first} waited=120s tried=241 suppressed=119 {remedy}",
        "info part: found code=BLOB-NO-SOURCE l1_block=5 waited=150s tried=300",
    ]
    assert EVERY_SECONDS == 60.0
    assert lines == once * 2


def test_another_code_is_a_line_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    condition = LastingCondition(get_logger("part"), lambda: 0.0)
    for code in (Code.BLOB_NOT_FOUND, Code.BLOB_NOT_FOUND, Code.BLOB_CUSTODY, Code.BLOB_CUSTODY):
        condition.report(code, "nobody has them")
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition("code=")[2].partition(" ")[0] for line in lines] == ["BLOB-NOT-FOUND", "BLOB-CUSTODY"]
    assert "tried=3 suppressed=1" in lines[1]
