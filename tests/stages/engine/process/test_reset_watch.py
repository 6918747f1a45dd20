"""Resets for the same reason become one condition, which ends with progress or quiet."""

import pytest

from rollup_node.stages.engine.process.reset_watch import QUIET_SECONDS, ResetWatch
from rollup_node.stages.io.log.logger import get_logger
from rollup_node.stages.messages.base import Problem
from rollup_node.stages.messages.codes import Code


class Watched:
    """A watch with a clock that stands still, and the problem that it shows."""

    def __init__(self) -> None:
        self.now = 0.0
        self.problem: Problem | None = None
        self.watch = ResetWatch(get_logger("engine"), self._show, lambda: self.now)

    def _show(self, problem: Problem | None) -> None:
        self.problem = problem

    def repeat(self, times: int, reason: str = "the unsafe head is below block {}") -> None:
        for number in range(times):
            self.watch.reset(reason.format(number))
            self.now += 10


@pytest.mark.sign("RESET-LOOP", line=True)
def test_an_hour_of_resets_is_a_line_a_minute(capsys: pytest.CaptureFixture[str]) -> None:
    watched = Watched()
    watched.repeat(360)
    lines = capsys.readouterr().err.splitlines()
    assert [line.count("code=RESET ") for line in lines[:3]] == [1, 1, 0]
    assert "code=RESET-LOOP resets=3 reason=the unsafe head is below block 2" in lines[2]
    assert 55 <= len(lines) <= 65 and all(line.endswith(Code.RESET_LOOP.remedy) for line in lines[2:])
    assert watched.problem is not None and str(watched.problem).startswith("RESET-LOOP: 360 resets for the same reason")


def test_a_new_safe_block_ends_it_and_one_that_was_safe_before_does_not() -> None:
    watched = Watched()
    watched.watch.processed(7)
    watched.repeat(3)
    watched.watch.processed(7)
    assert watched.problem is not None
    watched.watch.processed(8)
    assert watched.problem is None


def test_quiet_ends_it() -> None:
    watched = Watched()
    watched.repeat(3)
    watched.watch.tick()
    assert watched.problem is not None
    watched.now += QUIET_SECONDS
    watched.watch.tick()
    assert watched.problem is None


def test_other_reasons_are_no_loop(capsys: pytest.CaptureFixture[str]) -> None:
    watched = Watched()
    for reason in ("an L1 reorg", "the engine has lost its head", "an L1 reorg"):
        watched.repeat(1, reason)
    assert watched.problem is None
    assert capsys.readouterr().err.count("code=RESET ") == 3
