"""A fork that the engine seems not to know is said daily [ENG42]."""

import asyncio
from collections.abc import Iterator

import pytest

from rollup_node.stages.engine.api.engine_identity import ForkDoubt
from rollup_node.stages.engine.process.fork_watch import DAY, MAX_DAYS, ForkWatch
from rollup_node.stages.io import log
from rollup_node.stages.io.log import Level, Record


@pytest.fixture
def lines() -> Iterator[list[Record]]:
    before, found = log.configuration(), list[Record]()
    log.configure("engine", Level.INFO, found.append)
    yield found
    log.configure(*before)


def test_the_first_word_is_that_of_the_start_and_then_one_a_day_in_the_last_thirty(lines: list[Record]) -> None:
    left = [(MAX_DAYS + 1) * DAY]

    async def doubts() -> list[ForkDoubt]:
        return [ForkDoubt("lagoon", left[0], f"lagoon begins in {left[0] / DAY:.0f} days")]

    watch = ForkWatch(doubts)

    def step() -> int:
        before = len(lines)
        assert asyncio.run(watch.task.step()) == DAY  # type: ignore[arg-type]
        return len(lines) - before

    assert step() == 0, "the checks of the start have said it"
    assert step() == 0, "31 days are left"
    left[0] = MAX_DAYS * DAY
    assert step() == step() == 1
    assert [line.fields["code"] for line in lines] == ["FORK-MISMATCH"] * 2
    assert lines[0].fields["reason"] == "lagoon begins in 30 days" and "upgrade" in str(lines[0].fields["do"])
