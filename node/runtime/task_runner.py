"""Driving a stage: each activity's steps in a loop, with what to do about each severity. Only here are severities
caught; any other exception is a bug and goes through."""

import asyncio
import random
from collections.abc import Sequence

from rollup_node.stages.io.log import get_logger
from rollup_node.stages.io.metrics import Meter
from rollup_node.stages.io.task import PeriodicTask, Stage
from rollup_node.stages.protocol.errors import ResetError, StageError, TemporaryError

REPORT_SECONDS = 1.0
LONGEST_PAUSE = 3600.0
LONGEST_BACK_OFF = 10.0
JITTER = 0.25


def back_off(attempt: int) -> float:
    """Seconds to wait after the failed attempt of that number (from 0): 1, 2, 4, 8, 10, 10, and a little jitter."""
    return min(2.0 ** min(attempt, 4), LONGEST_BACK_OFF) + random.uniform(0, JITTER)


class Problems:
    """What is wrong with the process now, one line per activity; told to the stage when it changes and repeated."""

    def __init__(self, stage: Stage, meter: Meter) -> None:
        self._stage, self._meter = stage, meter
        self._lines: dict[str, str] = {}

    def set(self, activity: str, line: str) -> None:
        """An activity is in trouble."""
        if self._lines.get(activity) != line:
            self._lines[activity] = line
            self.tell()

    def clear(self, activity: str) -> None:
        """An activity works again."""
        if self._lines.pop(activity, None) is not None:
            self.tell()

    def tell(self) -> None:
        """Tells the stage the present lines."""
        self._meter.set("activity_problems", len(self._lines))
        self._stage.report(tuple(self._lines[name] for name in sorted(self._lines)))

    async def repeat(self) -> None:
        """Tells the stage again and again."""
        while True:
            self.tell()
            await asyncio.sleep(REPORT_SECONDS)


class Driver:
    """Runs the activities of one stage until `stop` is set."""

    def __init__(self, stage: Stage, meter: Meter, problems: Problems, part: str) -> None:
        self._stage, self._meter, self._problems = stage, meter, problems
        self._log = get_logger(part)
        self._stopping = asyncio.Event()

    @property
    def activities(self) -> Sequence[PeriodicTask]:
        """What there is to run."""
        return self._stage.activities

    def stop(self) -> None:
        """Lets each activity end with the step it is in, and without a pause."""
        self._stopping.set()
        for activity in self.activities:
            activity.wake.set()

    async def run(self, activity: PeriodicTask) -> None:
        """Repeats the steps of one activity."""
        attempt = 0
        while not self._stopping.is_set():
            activity.wake.clear()
            try:
                seconds = await activity.step()
            except (TemporaryError, ResetError) as error:
                await self._after_error(activity, error, attempt)
                attempt += 1
                continue
            if attempt:
                self._log.info("works again", activity=activity.name, failed_attempts=attempt)
                self._problems.clear(activity.name)
                attempt = 0
            await self._pause(activity.wake, seconds)

    async def _after_error(self, activity: PeriodicTask, error: StageError, attempt: int) -> None:
        severity = "reset" if isinstance(error, ResetError) else "temporary"
        seconds = back_off(attempt)
        if isinstance(error, ResetError):
            self._stage.reset(error)
            seconds = 0.0 if attempt == 0 else back_off(attempt - 1)
        text = str(error) or type(error).__name__
        self._meter.count("activity_errors_total", activity=activity.name, severity=severity)
        self._problems.set(activity.name, f"{activity.name}: {text}")
        self._log.warn(
            "asks for a reset" if severity == "reset" else "failed, will try again",
            activity=activity.name,
            error=text,
            again_in=round(seconds, 1),
        )
        await self._pause(self._stopping, seconds)

    async def _pause(self, until: asyncio.Event, seconds: float) -> None:
        if seconds <= 0 or until.is_set() or self._stopping.is_set():
            await asyncio.sleep(0)
            return
        try:
            async with asyncio.timeout(min(seconds, LONGEST_PAUSE)):
                await until.wait()
        except TimeoutError:
            pass
