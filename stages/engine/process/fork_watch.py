"""Says every day which fork to come the engine seems not to know [ENG42]. The checks of a start say it first."""

from collections.abc import Awaitable, Callable, Sequence

from rollup_node.stages.engine.api.engine_identity import ForkDoubt
from rollup_node.stages.io.log import get_logger
from rollup_node.stages.io.task import PeriodicTask
from rollup_node.stages.messages.codes import Code

log = get_logger("engine")

DAY = 86_400.0
MAX_DAYS = 30
"""Days before a fork from which on it is said daily."""


class ForkWatch:
    """`doubts` asks the engine."""

    def __init__(self, doubts: Callable[[], Awaitable[Sequence[ForkDoubt]]]) -> None:
        self._doubts = doubts
        self._is_first = True
        self.task = PeriodicTask("forks of the engine", self._step)

    async def _step(self) -> float:
        if self._is_first:
            self._is_first = False
            return DAY
        for doubt in await self._doubts():
            if doubt.left <= MAX_DAYS * DAY:
                text = "the execution engine seems not to know a fork that is to come"
                log.warn(text, code=Code.FORK_MISMATCH.text, reason=doubt.text, do=Code.FORK_MISMATCH.remedy)
        return DAY
