"""Asks the execution engine every day which fork to come it seems not to know; the rpc process warns of it [ENG42]."""

from collections.abc import Awaitable, Callable, Sequence

from rollup_node.stages.io.task import PeriodicTask
from rollup_node.stages.messages.engine import ForkDoubt
from rollup_node.stages.protocol.errors import TemporaryError

DAY_SECONDS, RETRY_SECONDS = 86_400.0, 60.0


class ForkWatch:
    """`doubts` asks the engine, `publish` takes what it finds."""

    def __init__(
        self, doubts: Callable[[], Awaitable[Sequence[ForkDoubt]]], publish: Callable[[Sequence[ForkDoubt]], None]
    ) -> None:
        self._doubts, self._publish = doubts, publish
        self.task = PeriodicTask("forks of the engine", self._step)

    async def _step(self) -> float:
        try:
            found = await self._doubts()
        except TemporaryError:
            # Other work says that the engine is away.
            return RETRY_SECONDS
        self._publish(found)
        return DAY_SECONDS
