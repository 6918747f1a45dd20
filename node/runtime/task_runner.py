"""Runs the periodic tasks of a stage; severities of errors are caught here alone, other exceptions are bugs."""

import asyncio
import random

from rollup_node.ipc.bus.timers import sleep_aligned, until_aligned
from rollup_node.stages.io.log.lasting_conditions import LastingConditions, shortened
from rollup_node.stages.io.log.logger import Logger
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.io.task import LATE_SECONDS, PeriodicTask, Stage
from rollup_node.stages.messages.base import Problem
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.errors import ResetError, StageError, TemporaryError
from rollup_node.stages.protocol.pacing import backoff

REPORT_SECONDS = 1.0
MAX_PAUSE = 3600.0
FIRST_BACKOFF, MAX_BACKOFF = 1.0, 10.0
JITTER = 0.25

_DEFAULT = {"reset": Code.RESET, "temporary": Code.RETRYING}
"""The codes of errors that have none."""


def pause_after(failures: int) -> float:
    """Return the seconds to wait after so many failures: 1, 2, 4, 8, 10, 10, plus up to 0.25."""
    return backoff(failures, FIRST_BACKOFF, MAX_BACKOFF) + random.uniform(0, JITTER)


class Problems:
    """The present problems of a process, one a task, reported to the stage when they change and every second."""

    def __init__(self, stage: Stage, meter: Meter) -> None:
        self._stage, self._meter = stage, meter
        self._tasks: dict[str, Problem] = {}

    def set(self, task: str, problem: Problem) -> None:
        if self._tasks.get(task) != problem:
            self._tasks[task] = problem
            self.report()

    def clear(self, task: str) -> None:
        """Remove the problem of a task, if it has one."""
        if self._tasks.pop(task, None) is not None:
            self.report()

    def report(self) -> None:
        """Report the present problems to the stage, in the order of their tasks' names."""
        self._meter.set("activity_problems", len(self._tasks))
        self._stage.report(tuple(self._tasks[name] for name in sorted(self._tasks)))

    async def repeat(self) -> None:
        """Report every second, until it is cancelled."""
        while True:
            self.report()
            await sleep_aligned(REPORT_SECONDS)


class TaskRunner:
    """Runs the periodic tasks of one stage until `stop` is called. `component` names it in the log."""

    def __init__(self, stage: Stage, meter: Meter, problems: Problems, component: str) -> None:
        self._stage, self._meter, self._problems = stage, meter, problems
        self.periodic_tasks = stage.periodic_tasks
        self._stopping = asyncio.Event()
        self._conditions = LastingConditions(Logger(component), lambda: asyncio.get_running_loop().time())

    def stop(self) -> None:
        """End every task after its present step, without a pause."""
        self._stopping.set()
        for task in self.periodic_tasks:
            task.wake.set()

    async def run(self, task: PeriodicTask) -> None:
        """Repeat the steps of one task.

        After a TemporaryError it backs off; a ResetError is passed to the stage and the step is repeated, at once
        the first time. Other exceptions propagate."""
        attempt = 0
        while not self._stopping.is_set():
            task.wake.clear()
            late = None
            if task.late is not None and not attempt:
                loop = asyncio.get_running_loop()
                late = loop.call_later(LATE_SECONDS, self._problems.set, task.name, task.late)
            try:
                seconds = await task.step()
            except (TemporaryError, ResetError) as error:
                await self._after_error(task, error, attempt)
                attempt += 1
                continue
            finally:
                if late is not None:
                    late.cancel()
            self._problems.clear(task.name)
            if attempt:
                self._conditions.end(task.name, "recovered", task=task.name)
                attempt = 0
            if task.is_aligned and seconds > 0:
                seconds = until_aligned(asyncio.get_running_loop().time(), seconds)
            await self._pause(task.wake, seconds)

    async def _after_error(self, task: PeriodicTask, error: StageError, attempt: int) -> None:
        severity = "reset" if isinstance(error, ResetError) else "temporary"
        seconds = pause_after(attempt + 1)
        if isinstance(error, ResetError):
            self._stage.reset(error)
            seconds = 0.0 if attempt == 0 else pause_after(attempt)
        text = shortened(str(error) or type(error).__name__)
        code = error.code if isinstance(error.code, Code) else _DEFAULT[severity]
        self._meter.count("activity_errors_total", activity=task.name, severity=severity)
        self._problems.set(task.name, Problem(code, task.name, text))
        message, cause = ("resetting", {"error": text}) if severity == "reset" else (text, {})
        self._conditions.report(task.name, code, message, task=task.name, **cause, retry_in_s=round(seconds, 1))
        # A wake-up must not end a back-off: only stopping does.
        await self._pause(self._stopping, seconds)

    async def _pause(self, until: asyncio.Event, seconds: float) -> None:
        if seconds <= 0 or until.is_set() or self._stopping.is_set():
            await asyncio.sleep(0)
            return
        try:
            async with asyncio.timeout(min(seconds, MAX_PAUSE)):
                await until.wait()
        except TimeoutError:
            pass
