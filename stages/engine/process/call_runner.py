"""Makes the calls of the engine core, each in a task of its own."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from rollup_node.stages.engine.calls.calls import CoreAnswer, CoreCall, Lane, PendingCall
from rollup_node.stages.engine.calls.engine_api import Unavailable
from rollup_node.stages.engine.calls.stimulus_log import StimulusLog
from rollup_node.stages.engine.process.engine_client import UnreadableAnswerError
from rollup_node.stages.io.log.logger import Level, get_logger
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.errors import (
    ForkMismatchError,
    HaltError,
    NetworkLeftError,
    RestartError,
    TemporaryError,
)

_LASTING = {Lane.HEADS, Lane.SAFE_HEAD_WRITES}
LINES_A_RECORD = 50
PAUSE_SECONDS = 0.002
"""Between records: the log pipe holds a few of them and drops what finds no room, and the traceback must find some."""

log = get_logger("engine")


class CallRunner:
    """`ask` makes a call, whose TemporaryError is the answer Unavailable; `wake` is called for each answer."""

    def __init__(self, ask: Callable[[CoreCall], Awaitable[CoreAnswer]], wake: Callable[[], None]) -> None:
        self._ask, self._wake = ask, wake
        self._tasks: dict[asyncio.Task[CoreAnswer], PendingCall] = {}

    def start(self, pending: PendingCall) -> None:
        task = asyncio.create_task(self._run(pending.call), name=f"{pending.purpose.value} call")
        self._tasks[task] = pending
        task.add_done_callback(lambda _: self._wake())

    async def _run(self, call: CoreCall) -> CoreAnswer:
        try:
            return await self._ask(call)
        except TemporaryError as error:
            code = error.code if isinstance(error.code, Code) else None
            return Unavailable(str(error), isinstance(error, UnreadableAnswerError), code)

    def answers(self) -> list[tuple[PendingCall, CoreAnswer]]:
        """Return the answers since the last call. Raises what `ask` raised besides TemporaryError."""
        done = [task for task in self._tasks if task.done()]
        return [(self._tasks.pop(task), task.result()) for task in done]

    async def close(self, seconds: float) -> None:
        """Wait up to `seconds` for the calls that move heads or record them, and cancel the others."""
        moving = [task for task, pending in self._tasks.items() if pending.purpose.lane in _LASTING]
        if moving:
            await asyncio.wait(moving, timeout=seconds)
        open_tasks = [task for task in self._tasks if not task.done()]
        for task in open_tasks:
            task.cancel()
            del self._tasks[task]
        await asyncio.gather(*open_tasks, return_exceptions=True)


@contextmanager
def stimuli_logged(stimuli: StimulusLog) -> Iterator[None]:
    """Write the stimuli to the log when an exception ends the block, unless its text says all; it goes on."""
    try:
        yield
    except (RestartError, HaltError, NetworkLeftError, ForkMismatchError):
        raise
    except Exception:
        write_stimuli(stimuli)
        raise


def write_stimuli(stimuli: StimulusLog) -> None:
    """Write all lines, oldest first, in records of LINES_A_RECORD lines."""
    lines = stimuli.lines()
    for first in range(0, len(lines), LINES_A_RECORD):
        part = lines[first : first + LINES_A_RECORD]
        log.write(Level.ERROR, "last stimuli of the engine core", {"from": first, "of": len(lines)}, "\n".join(part))
        time.sleep(PAUSE_SECONDS)
