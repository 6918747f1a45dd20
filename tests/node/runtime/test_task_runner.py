"""Driving activities: pauses, wake-ups, and what follows from each severity."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from rollup_node.node.runtime import task_runner as activities
from rollup_node.node.runtime.task_runner import Driver, Problems, back_off
from rollup_node.stages.io.metrics import Meter
from rollup_node.stages.io.task import PeriodicTask
from rollup_node.stages.protocol.errors import CriticalError, ResetError, TemporaryError
from tests.support import virtual_time


class Stage:
    """A stage that notes what it is told."""

    def __init__(self, step: Callable[[], Awaitable[float]]) -> None:
        self.activities = [PeriodicTask("poll", step)]
        self.reports: list[tuple[str, ...]] = []
        self.resets: list[str] = []

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    def reset(self, error: Exception) -> None:
        self.resets.append(str(error))

    def report(self, problems: tuple[str, ...]) -> None:
        self.reports.append(problems)


class Script:
    """Steps that do what a list says: a number of seconds to pause, or an error to raise; then they stop the driver."""

    def __init__(self, *acts: float | Exception) -> None:
        self.acts, self.times = list(acts), list[float]()
        self.stage = Stage(self.step)
        self.meter = Meter("test")
        self.driver = Driver(self.stage, self.meter, Problems(self.stage, self.meter), "test")

    async def step(self) -> float:
        self.times.append(asyncio.get_running_loop().time())
        if not self.acts:
            self.driver.stop()
            return 3600.0
        act = self.acts.pop(0)
        if isinstance(act, Exception):
            raise act
        return act

    def run(self, beside: Callable[[], Awaitable[Any]] | None = None) -> list[float]:
        """Runs to the end; the times between steps."""

        async def both() -> None:
            async with asyncio.TaskGroup() as group:
                group.create_task(self.driver.run(self.stage.activities[0]))
                if beside is not None:
                    await beside()

        virtual_time.run(both())
        return [later - earlier for earlier, later in zip(self.times, self.times[1:], strict=False)]


@pytest.fixture(autouse=True)
def short_back_off(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Back-offs of 50 ms; the attempts they were asked for."""
    attempts: list[int] = []

    def short(attempt: int) -> float:
        attempts.append(attempt)
        return 0.05

    monkeypatch.setattr(activities, "back_off", short)
    return attempts


def test_the_back_off_doubles_up_to_ten_seconds() -> None:
    for attempt, least in enumerate([1, 2, 4, 8, 10, 10, 10]):
        assert least <= back_off(attempt) <= least + 0.25
    assert back_off(10**6) <= 10.25


def test_a_step_says_its_pause() -> None:
    assert Script(0.05, 0.0, -1.0).run() == [0.05, 0.0, 0.0]


def test_waking_ends_a_pause_and_a_wake_during_the_step_counts() -> None:
    script = Script(3600.0, 3600.0)

    async def wake() -> None:
        for _ in range(2):
            await asyncio.sleep(0.02)
            script.stage.activities[0].wake.set()

    assert script.run(wake) == pytest.approx([0.02, 0.02])


def test_steps_without_a_pause_let_others_run() -> None:
    turns = 0

    async def other() -> None:
        nonlocal turns
        for _ in range(10):
            await asyncio.sleep(0)
            turns += 1

    Script(*[0.0] * 50).run(other)
    assert turns == 10


def test_temporary_errors_back_off_and_are_told(short_back_off: list[int]) -> None:
    script = Script(TemporaryError("away"), TemporaryError("away"), TemporaryError("slow"), 0.0, TemporaryError(), 0.0)
    assert script.run() == pytest.approx([0.05, 0.05, 0.05, 0.0, 0.05, 0.0])
    assert short_back_off == [0, 1, 2, 0]
    assert script.stage.reports == [("poll: away",), ("poll: slow",), (), ("poll: TemporaryError",), ()]
    assert 'activity="poll",severity="temporary"} 4.0' in script.meter.text().decode()


def test_waking_does_not_end_a_back_off() -> None:
    script = Script(TemporaryError("away"))

    async def wake() -> None:
        for _ in range(4):
            await asyncio.sleep(0.01)
            script.stage.activities[0].wake.set()

    assert script.run(wake) == [0.05]


def test_stopping_ends_a_back_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activities, "back_off", lambda _: 3600.0)
    script = Script(TemporaryError("away"))

    async def stop() -> None:
        await asyncio.sleep(0.02)
        script.driver.stop()

    script.run(stop)
    assert len(script.times) == 1


def test_a_reset_is_handed_over_at_once_and_backs_off_when_repeated(short_back_off: list[int]) -> None:
    script = Script(ResetError("reorg"), ResetError("again"), 0.0)
    assert script.run() == [0.0, 0.05, 0.0]
    assert script.stage.resets == ["reorg", "again"]


@pytest.mark.parametrize("error", [CriticalError("contradiction"), ValueError("bug"), ZeroDivisionError()])
def test_what_is_not_to_be_repeated_goes_through(error: Exception) -> None:
    with pytest.raises(ExceptionGroup) as caught:
        Script(error).run()
    assert caught.value.exceptions == (error,)


def test_problems_are_told_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activities, "REPORT_SECONDS", 0.01)
    script = Script()

    async def listen() -> None:
        problems = Problems(script.stage, script.meter)
        problems.set("b", "b: two")
        problems.set("a", "a: one")
        task = asyncio.create_task(problems.repeat())
        await asyncio.sleep(0.05)
        task.cancel()

    virtual_time.run(listen())
    assert script.stage.reports[:2] == [("b: two",), ("a: one", "b: two")]
    assert len(script.stage.reports) == 2 + 5
    assert set(script.stage.reports[2:]) == {("a: one", "b: two")}
