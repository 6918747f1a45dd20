"""Makes the calls of the engine core, those of a lane one after the other in a task [ENG44]."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from functools import partial
from types import coroutine
from typing import Any

from rollup_node.stages.engine.calls.calls import CallPurpose, CoreAnswer, CoreCall, PendingCall
from rollup_node.stages.engine.calls.engine_api import Unavailable
from rollup_node.stages.engine.calls.stimulus_log import StimulusLog
from rollup_node.stages.engine.process.engine_client import UnreadableAnswerError
from rollup_node.stages.engine.process.neighbour_clients import FollowClientError
from rollup_node.stages.io import tracing
from rollup_node.stages.io.log.logger import Level, Logger
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.errors import (
    ForkMismatchError,
    HaltError,
    NetworkLeftError,
    RestartError,
    TemporaryError,
)

_LASTING = {None, CallPurpose.SAFE_HEAD_WRITE}
"""The lanes of calls that move heads or record them."""

LINES_A_RECORD = 50
PAUSE_SECONDS = 0.002
"""Between records: the log pipe holds a few of them and drops what finds no room, and the traceback must find some."""

log = Logger("engine")


class CallRunner:
    """`ask` makes a call, whose TemporaryError is the answer Unavailable.

    `take` takes an answer, and returns the calls to be made now; `settle` is called when they are on their way, `wake`
    when one of the three has raised something else."""

    def __init__(
        self,
        ask: Callable[[CoreCall], Coroutine[Any, Any, CoreAnswer]],
        take: Callable[[PendingCall, CoreAnswer], list[PendingCall]],
        settle: Callable[[], None],
        wake: Callable[[], None],
    ) -> None:
        self._ask, self._take, self._settle, self._wake = ask, take, settle, wake
        self._open: dict[asyncio.Task[None], PendingCall] = {}

    def start(self, pending: PendingCall) -> None:
        task = asyncio.create_task(self._run(pending), name=f"{pending.purpose.value} call")
        self._open[task] = pending
        task.add_done_callback(self._ended)

    async def _run(self, pending: PendingCall) -> None:
        """Make a call, and those of its lane that follow, in the same turn of the event loop as its answer comes."""
        task = asyncio.current_task()
        assert task is not None
        answer = await self._answer(pending)
        while True:
            following = None
            for call in self._take(pending, answer):
                if call.purpose.lane is pending.purpose.lane:
                    following = call
                else:
                    self.start(call)
            if following is None:
                self._settle()
                return
            self._open[task] = pending = following
            answer = await _then(self._answer(pending), self._settle)

    async def _answer(self, pending: PendingCall) -> CoreAnswer:
        began = time.monotonic()
        try:
            answer = await self._ask(pending.call)
            if pending.purpose is CallPurpose.ATTRIBUTES:
                tracing.add(f"engine.{type(pending.call).__name__}", began, None)
            return answer
        except TemporaryError as error:
            code = error.code if isinstance(error.code, Code) else None
            cause = error.reason if isinstance(error, FollowClientError) else ""
            return Unavailable(str(error), isinstance(error, UnreadableAnswerError), code, cause)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is None:
            self._open.pop(task, None)
        else:
            self._wake()

    def check(self) -> None:
        """Raise what a call, or what followed from its answer, has raised."""
        for task in [task for task in self._open if task.done()]:
            del self._open[task]
            task.result()

    async def close(self, seconds: float) -> None:
        """Wait up to `seconds` for the calls that move heads or record them, and cancel the others."""
        moving = [task for task, pending in self._open.items() if pending.purpose.lane in _LASTING]
        if moving:
            await asyncio.wait(moving, timeout=seconds)
        open_tasks = [task for task in self._open if not task.done()]
        for task in open_tasks:
            task.cancel()
            del self._open[task]
        await asyncio.gather(*open_tasks, return_exceptions=True)


@coroutine
def _then(asked: Coroutine[Any, Any, CoreAnswer], sent: Callable[[], None]) -> Generator[Any, Any, CoreAnswer]:
    """Return the result of a coroutine; `sent` is called when it waits for the first time."""
    step: Callable[[], Any] = partial(asked.send, None)
    try:
        future = step()
        sent()
        while True:
            try:
                yield future
            except BaseException as error:
                step = partial(asked.throw, error)
            else:
                step = partial(asked.send, None)
            future = step()
    except StopIteration as end:
        result: CoreAnswer = end.value
        return result
    finally:
        asked.close()


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
