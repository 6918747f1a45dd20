"""Running periodic tasks: pauses, wake-ups, and what follows from each severity."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from rollup_node.node.runtime import task_runner
from rollup_node.node.runtime.task_runner import Problems, TaskRunner, pause_after
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.io.task import LATE_SECONDS, PeriodicTask, Stage
from rollup_node.stages.messages.base import Problem
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.errors import CriticalError, ResetError, TemporaryError
from tests.support.timing import virtual_time


class RecordingStage(Stage):
    """A stage of one task that records the runtime's calls."""

    def __init__(self, step: Callable[[], Awaitable[float]]) -> None:
        self.periodic_tasks: list[PeriodicTask] = [PeriodicTask("poll", step)]
        self.reports: list[tuple[str, ...]] = []
        self.resets: list[str] = []

    def reset(self, error: Exception) -> None:
        self.resets.append(str(error))

    def report(self, problems: tuple[Problem, ...]) -> None:
        self.reports.append(tuple(map(str, problems)))


class ScriptedTask:
    """A task whose steps follow a script of pauses in seconds and errors to raise; then it stops the runner."""

    def __init__(self, *script: float | Exception) -> None:
        self.script, self.times = list(script), list[float]()
        self.stage = RecordingStage(self.step)
        self.meter = Meter("test")
        self.runner = TaskRunner(self.stage, self.meter, Problems(self.stage, self.meter), "test")

    async def step(self) -> float:
        self.times.append(asyncio.get_running_loop().time())
        if not self.script:
            self.runner.stop()
            return 3600.0
        act = self.script.pop(0)
        if isinstance(act, Exception):
            raise act
        return act

    def run(self, beside: Callable[[], Awaitable[Any]] | None = None) -> list[float]:
        """Run to the end in virtual time; the seconds between steps."""

        async def both() -> None:
            async with asyncio.TaskGroup() as group:
                group.create_task(self.runner.run(self.stage.periodic_tasks[0]))
                if beside is not None:
                    await beside()

        virtual_time.run(both())
        return [later - earlier for earlier, later in zip(self.times, self.times[1:], strict=False)]


@pytest.fixture(autouse=True)
def backoff_attempts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Shortens back-offs to 50 ms; returns the attempt numbers passed to `pause_after`."""
    attempts: list[int] = []

    def short(attempt: int) -> float:
        attempts.append(attempt)
        return 0.05

    monkeypatch.setattr(task_runner, "pause_after", short)
    return attempts


def test_the_backoff_doubles_up_to_ten_seconds() -> None:
    for attempt, least in enumerate([1, 2, 4, 8, 10, 10, 10], 1):
        assert least <= pause_after(attempt) <= least + 0.25
    assert pause_after(10**6) <= 10.25


def test_a_step_returns_its_pause() -> None:
    assert ScriptedTask(0.05, 0.0, -1.0).run() == [0.05, 0.0, 0.0]


def test_pauses_of_an_aligned_task_end_at_their_multiples() -> None:
    task = ScriptedTask(0.3, 1.0, 0.0, 1.0, 1.0)
    task.stage.periodic_tasks[0].is_aligned = True
    task.run()
    assert all(abs(at - round(at)) < 1e-6 for at in task.times[2:]) and task.times[2] == task.times[3]
    assert abs(task.times[1] / 0.3 - round(task.times[1] / 0.3)) < 1e-6


def test_waking_ends_a_pause_and_a_wake_up_during_the_step_counts() -> None:
    task = ScriptedTask(3600.0, 3600.0)

    async def wake() -> None:
        for _ in range(2):
            await asyncio.sleep(0.02)
            task.stage.periodic_tasks[0].wake.set()

    assert task.run(wake) == pytest.approx([0.02, 0.02])


def test_steps_without_a_pause_let_others_run() -> None:
    turns = 0

    async def other() -> None:
        nonlocal turns
        for _ in range(10):
            await asyncio.sleep(0)
            turns += 1

    ScriptedTask(*[0.0] * 50).run(other)
    assert turns == 10


def test_temporary_errors_back_off_and_are_reported(backoff_attempts: list[int]) -> None:
    task = ScriptedTask(
        TemporaryError("away"), TemporaryError("away"), TemporaryError("slow"), 0.0, TemporaryError(), 0.0
    )
    assert task.run() == pytest.approx([0.05, 0.05, 0.05, 0.0, 0.05, 0.0])
    assert backoff_attempts == [1, 2, 3, 1]
    assert task.stage.reports == [
        ("RETRYING: poll: away",),
        ("RETRYING: poll: slow",),
        (),
        ("RETRYING: poll: TemporaryError",),
        (),
    ]
    assert 'activity="poll",severity="temporary"} 4.0' in task.meter.text().decode()


@pytest.mark.sign("RETRYING", line=True, readyz=True)
def test_an_hour_of_failures_is_a_line_a_minute_for_all_tasks_together(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two tasks fail by the same engine for an hour, one each of the ten seconds of the longest back-off."""
    monkeypatch.setattr(task_runner, "pause_after", lambda failures: min(2.0 ** (failures - 1), 10.0))
    text = "127.0.0.1:8551: cannot connect " + "x" * 10**6

    async def fail() -> float:
        raise TemporaryError(text)

    stage = RecordingStage(fail)
    stage.periodic_tasks.append(PeriodicTask("unsafe", fail))
    meter = Meter("test")
    problems = Problems(stage, meter)
    runner = TaskRunner(stage, meter, problems, "engine")

    async def run_for_an_hour() -> None:
        running = [asyncio.create_task(runner.run(task)) for task in stage.periodic_tasks]
        await asyncio.sleep(3600)
        runner.stop()
        await asyncio.gather(*running)

    virtual_time.run(run_for_an_hour())
    lines = capsys.readouterr().err.splitlines()
    assert 50 <= len(lines) <= 61 and sum(map(len, lines)) < 60_000
    assert "suppressed=" not in lines[0] and "waited=1m" in lines[1] and "suppressed=1" in lines[1]
    assert all("code=RETRYING" in line and f"do={Code.RETRYING.remedy}" in line for line in lines)
    assert all(line.startswith("RETRYING: ") for report in stage.reports for line in report)
    assert max(len(line) for report in stage.reports for line in report) < 600


def test_an_alternating_task_is_a_few_lines_a_minute(capsys: pytest.CaptureFixture[str]) -> None:
    script: list[float | Exception] = []
    for number in range(2000):
        script += [TemporaryError(f"failure {number}"), 0.0]
    task = ScriptedTask(*script)
    assert sum(task.run()) == pytest.approx(100)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("warn test: failure 0 code=RETRYING task=poll retry_in_s=")
    assert len(lines) == 2, "one in a minute"
    assert "suppressed=1" in lines[1]


def test_an_error_with_a_code_is_logged_and_reported_by_it(capsys: pytest.CaptureFixture[str]) -> None:
    task = ScriptedTask(TemporaryError("HTTP status 429", Code.L1_THROTTLED), 0.0)
    task.run()
    assert task.stage.reports == [("L1-THROTTLED: poll: HTTP status 429",), ()]
    (line,) = capsys.readouterr().err.splitlines()
    assert "HTTP status 429 code=L1-THROTTLED task=poll retry_in_s=" in line and line.endswith(Code.L1_THROTTLED.remedy)


def test_a_step_that_takes_long_is_a_problem_until_it_ends() -> None:
    """[LHD3]"""
    late = Problem(Code.L1_UNREACHABLE, "poll", "no answer")
    reports: list[object] = []

    async def step() -> float:
        await asyncio.sleep(LATE_SECONDS / 2)
        reports.append(len(stage.reports))
        await asyncio.sleep(LATE_SECONDS)
        reports.append(stage.reports[-1])
        runner.stop()
        return 0.0

    stage = RecordingStage(step)
    stage.periodic_tasks = [PeriodicTask("poll", step, late=late)]
    runner = TaskRunner(stage, Meter("test"), Problems(stage, Meter("test")), "test")
    virtual_time.run(runner.run(stage.periodic_tasks[0]))
    assert reports == [0, (str(late),)] and stage.reports[-1] == ()


def test_waking_does_not_end_a_backoff() -> None:
    task = ScriptedTask(TemporaryError("away"))

    async def wake() -> None:
        for _ in range(4):
            await asyncio.sleep(0.01)
            task.stage.periodic_tasks[0].wake.set()

    assert task.run(wake) == [0.05]


def test_stopping_ends_a_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_runner, "backoff", lambda _: 3600.0)
    task = ScriptedTask(TemporaryError("away"))

    async def stop() -> None:
        await asyncio.sleep(0.02)
        task.runner.stop()

    task.run(stop)
    assert len(task.times) == 1


@pytest.mark.condition("C5")
def test_a_reset_is_passed_on_at_once_and_backs_off_when_repeated(backoff_attempts: list[int]) -> None:
    task = ScriptedTask(ResetError("reorg"), ResetError("again"), 0.0)
    assert task.run() == [0.0, 0.05, 0.0]
    assert task.stage.resets == ["reorg", "again"]


@pytest.mark.parametrize("error", [CriticalError("contradiction"), ValueError("bug"), ZeroDivisionError()])
def test_critical_errors_and_bugs_propagate(error: Exception) -> None:
    with pytest.raises(ExceptionGroup) as caught:
        ScriptedTask(error).run()
    assert caught.value.exceptions == (error,)


def test_problems_are_reported_repeatedly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_runner, "REPORT_SECONDS", 0.01)
    task = ScriptedTask()

    async def report() -> None:
        problems = Problems(task.stage, task.meter)
        problems.set("b", Problem(None, "b", "two"))
        problems.set("a", Problem(None, "a", "one"))
        repeating = asyncio.create_task(problems.repeat())
        await asyncio.sleep(0.05)
        repeating.cancel()

    virtual_time.run(report())
    assert task.stage.reports[:2] == [("b: two",), ("a: one", "b: two")]
    assert len(task.stage.reports) == 2 + 5
    assert set(task.stage.reports[2:]) == {("a: one", "b: two")}
