"""Makes the calls of the engine core, each in a task of its own."""

import asyncio
from collections.abc import Awaitable, Callable

from rollup_node.stages.engine.api.engine_api import Unavailable
from rollup_node.stages.engine.api.io.client import UnreadableAnswerError
from rollup_node.stages.engine.core.calls import CoreAnswer, CoreCall, Lane, PendingCall
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.errors import TemporaryError

_LASTING = {Lane.HEADS, Lane.SAFE_HEAD_WRITES}


class CallRunner:
    """`ask` makes one call; its TemporaryError becomes the answer Unavailable. `wake` is called when an answer
    is there."""

    def __init__(self, ask: Callable[[CoreCall], Awaitable[CoreAnswer]], wake: Callable[[], None]) -> None:
        self._ask, self._wake = ask, wake
        self._tasks: dict[asyncio.Task[CoreAnswer], PendingCall] = {}

    def start(self, pending: PendingCall) -> None:
        """Makes a call."""
        task = asyncio.create_task(self._run(pending.call), name=f"{pending.work.value} call")
        self._tasks[task] = pending
        task.add_done_callback(lambda _: self._wake())

    async def _run(self, call: CoreCall) -> CoreAnswer:
        try:
            return await self._ask(call)
        except TemporaryError as error:
            code = error.code if isinstance(error.code, Code) else None
            return Unavailable(str(error), isinstance(error, UnreadableAnswerError), code)

    def answers(self) -> list[tuple[PendingCall, CoreAnswer]]:
        """The answers since the last call. Raises what `ask` raised besides TemporaryError."""
        done = [task for task in self._tasks if task.done()]
        return [(self._tasks.pop(task), task.result()) for task in done]

    async def close(self, seconds: float) -> None:
        """Waits up to `seconds` for the calls that move heads or record them, and cancels the others."""
        moving = [task for task, pending in self._tasks.items() if pending.work.lane in _LASTING]
        if moving:
            await asyncio.wait(moving, timeout=seconds)
        open_tasks = [task for task in self._tasks if not task.done()]
        for task in open_tasks:
            task.cancel()
            del self._tasks[task]
        await asyncio.gather(*open_tasks, return_exceptions=True)
