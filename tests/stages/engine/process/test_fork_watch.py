"""Which fork the engine seems not to know is asked daily [ENG42]."""

import asyncio
from collections.abc import Sequence

from rollup_node.stages.engine.process.fork_watch import DAY_SECONDS, RETRY_SECONDS, ForkWatch
from rollup_node.stages.messages.engine import ForkDoubt
from rollup_node.stages.protocol.errors import TemporaryError

DOUBT = ForkDoubt("lagoon", 100, "it is old")


def test_the_answer_is_published_daily_and_a_missing_one_is_tried_again() -> None:
    published, is_away = list[Sequence[ForkDoubt]](), [True]

    async def doubts() -> list[ForkDoubt]:
        if is_away[0]:
            raise TemporaryError("the engine is away")
        return [DOUBT]

    watch = ForkWatch(doubts, published.append)
    assert asyncio.run(watch.task.step()) == RETRY_SECONDS and published == []  # type: ignore[arg-type]
    is_away[0] = False
    assert asyncio.run(watch.task.step()) == DAY_SECONDS and published == [[DOUBT]]  # type: ignore[arg-type]
