"""The scheduler alone, and over a channel that loses, duplicates and reorders, with workers killed at any step."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from rollup_node.ipc.bus.task_scheduler import ELSEWHERE, TASK_ID_SHIFT, Assignment, CompletedTask, TaskScheduler
from rollup_node.ipc.wire.process_id import ProcessId

A, B = ProcessId(1, 1), ProcessId(2, 1)


@dataclass
class SchedulerHarness:
    """A scheduler with its counters and a clock."""

    counters: Counter[str] = field(default_factory=Counter)
    now: float = 100.0

    def __post_init__(self) -> None:
        self.scheduler = TaskScheduler(7, self.counters)
        self.scheduler.task_timeout = 60.0

    def submit(self, body: str = "work") -> int:
        return self.scheduler.submit(body, self.now)

    def report(self, worker: ProcessId, *held: Assignment, running: int | None = None) -> None:
        self.scheduler.worker_report(worker, frozenset((item.task, item.attempt) for item in held), running, self.now)

    def assignments(self) -> list[Assignment]:
        return self.scheduler.take_assignments()

    def assignment(self) -> Assignment:
        (one,) = self.assignments()
        return one


@pytest.fixture
def harness() -> SchedulerHarness:
    return SchedulerHarness()


def test_ids_start_at_the_incarnation(harness: SchedulerHarness) -> None:
    assert [harness.submit(), harness.submit()] == [(7 << TASK_ID_SHIFT) + 1, (7 << TASK_ID_SHIFT) + 2]


def test_a_worker_holds_one_task_beside_the_one_it_runs(harness: SchedulerHarness) -> None:
    first, second, third = (harness.submit() for _ in range(3))
    harness.report(A)
    one = harness.assignment()
    assert one.task == first
    harness.report(A, one, running=ELSEWHERE)
    assert harness.assignments() == []
    harness.report(A, one, running=first)
    two = harness.assignment()
    assert two.task == second
    harness.scheduler.task_result(first, 0, harness.now)
    assert harness.assignments() == []
    harness.report(A, two, running=second)
    assert harness.assignment().task == third


def test_the_idle_worker_comes_first(harness: SchedulerHarness) -> None:
    first = harness.submit()
    harness.report(A)
    harness.report(A, harness.assignment(), running=first)
    harness.report(B)
    harness.submit()
    assert harness.assignment().worker == B


def test_a_second_result_is_only_counted(harness: SchedulerHarness) -> None:
    task = harness.submit()
    harness.report(A)
    harness.scheduler.task_result(task, 1, harness.now)
    harness.scheduler.task_result(task, 2, harness.now)
    assert harness.scheduler.take_completed() == [CompletedTask(task, 1, None)]
    assert harness.counters["task_duplicates"] == 1


def test_a_cancelled_task_is_not_sent_and_its_result_ignored(harness: SchedulerHarness) -> None:
    first, second = harness.submit(), harness.submit()
    harness.scheduler.cancel(second)
    assert list(harness.scheduler._queued) == [first], "a cancelled task leaves the queue"
    harness.report(A)
    assert harness.assignment().task == first
    harness.scheduler.cancel(first)
    harness.scheduler.task_result(first, 1, harness.now)
    harness.report(A)
    assert harness.assignments() == [] and harness.scheduler.take_completed() == []


def test_a_newer_incarnation_proves_the_older_dead(harness: SchedulerHarness) -> None:
    task = harness.submit()
    harness.report(A)
    harness.assignments()
    harness.report(ProcessId(1, 2))
    assert harness.assignment() == Assignment(ProcessId(1, 2), task, 2, "work")
    harness.report(A)
    assert harness.scheduler.workers == [ProcessId(1, 2)], "the report of a dead worker is ignored"


def test_a_task_that_disappears_from_the_reports_is_lost(harness: SchedulerHarness) -> None:
    harness.submit()
    harness.report(A)
    one = harness.assignment()
    harness.report(A, one)
    harness.report(A)
    assert harness.assignment().attempt == 2


def test_a_task_that_is_never_reported_is_lost_after_the_report_timeout(harness: SchedulerHarness) -> None:
    harness.submit()
    harness.report(A)
    harness.assignments()
    harness.now += 1.9
    harness.report(A)
    assert harness.assignments() == []
    harness.now += 0.2
    harness.report(A)
    assert harness.assignment().attempt == 2


def test_a_task_that_takes_too_long_goes_to_another(harness: SchedulerHarness) -> None:
    harness.submit()
    harness.report(A)
    one = harness.assignment()
    harness.report(A, one, running=one.task)
    harness.report(B)
    harness.now += 61
    harness.scheduler.tick(harness.now)
    assert harness.assignment().attempt == 2


def test_an_unreachable_worker_gets_no_task_until_it_reports(harness: SchedulerHarness) -> None:
    harness.submit()
    harness.report(A)
    harness.assignments()
    harness.scheduler.unreachable(A, harness.now)
    assert harness.assignments() == []
    harness.report(A)
    assert harness.assignment().attempt == 2


def die_in_liveness_table(harness: SchedulerHarness, worker: ProcessId) -> None:
    harness.scheduler.worker_died(worker.slot, worker.incarnation + 1, harness.now)


def die_by_report(harness: SchedulerHarness, worker: ProcessId) -> None:
    harness.report(ProcessId(worker.slot, worker.incarnation + 1))


@pytest.mark.parametrize("kill", [die_in_liveness_table, die_by_report])
def test_the_third_death_fails_a_task_with_a_reason(
    harness: SchedulerHarness, kill: Callable[[SchedulerHarness, ProcessId], None]
) -> None:
    task = harness.submit()
    for incarnation in (1, 2, 3):
        worker = ProcessId(1, incarnation)
        harness.report(worker)
        assert harness.assignment().worker == worker
        kill(harness, worker)
    assert harness.scheduler.take_completed() == [CompletedTask(task, None, "3 workers died of it")]
    assert harness.counters["tasks_poisoned"] == 1 and harness.scheduler.outstanding == 0


def test_only_the_task_that_ran_is_suspected(harness: SchedulerHarness) -> None:
    guilty, innocent = harness.submit(), harness.submit()
    for incarnation in (1, 2, 3):
        worker = ProcessId(1, incarnation)
        harness.report(worker)
        one = harness.assignment()
        assert one.task == guilty, "a suspect is assigned before others"
        harness.report(worker, one, running=guilty)
        harness.assignments()
        die_in_liveness_table(harness, worker)
    assert [done.task for done in harness.scheduler.take_completed()] == [guilty]
    harness.report(B)
    assert harness.assignment().task == innocent


def test_a_suspect_runs_alone(harness: SchedulerHarness) -> None:
    suspect = harness.submit()
    harness.report(A)
    harness.assignments()
    die_in_liveness_table(harness, A)
    harness.submit()
    harness.report(B)
    one = harness.assignment()
    assert one.task == suspect
    harness.report(B, one, running=suspect)
    assert harness.assignments() == []


def test_a_worker_that_died_of_another_dispatchers_task_clears_ours(harness: SchedulerHarness) -> None:
    task = harness.submit()
    for incarnation in range(1, 7):
        worker = ProcessId(1, incarnation)
        harness.report(worker)
        harness.report(worker, harness.assignment(), running=ELSEWHERE)
        die_in_liveness_table(harness, worker)
    harness.report(B)
    assert harness.assignment().task == task and harness.scheduler.take_completed() == []


def test_a_result_rejected_three_times_fails_the_task(harness: SchedulerHarness) -> None:
    task = harness.submit()
    for _ in range(3):
        harness.report(A)
        harness.assignments()
        harness.scheduler.result_rejected(A, task, harness.now)
    assert [done.task for done in harness.scheduler.take_completed()] == [task]


def test_a_worker_may_reject_a_task_for_all(harness: SchedulerHarness) -> None:
    task = harness.submit()
    harness.report(A)
    harness.scheduler.task_rejected(task, "malformed", harness.now)
    assert harness.scheduler.take_completed() == [CompletedTask(task, None, "malformed")]


SLOTS = st.integers(1, 3)
INDEX = st.integers(0, 50)


class LossyChannel(RuleBasedStateMachine):
    """Three workers behind a lossy channel. A task completes once, and is queued or held by one worker until then."""

    def __init__(self) -> None:
        super().__init__()
        self.counters: Counter[str] = Counter()
        self.scheduler = TaskScheduler(2, self.counters)
        self.scheduler.max_deaths = 10**9
        self.now = 0.0
        self.submitted: set[int] = set()
        self.cancelled: set[int] = set()
        self.completed: list[CompletedTask] = []
        self.incarnation = dict.fromkeys((1, 2, 3), 1)
        self.held: dict[int, dict[int, int]] = {1: {}, 2: {}, 3: {}}
        self.to_workers: list[Assignment] = []
        self.to_scheduler: list[Callable[[], None]] = []
        for slot in self.incarnation:
            self.report(slot)

    def pump(self) -> None:
        self.to_workers += self.scheduler.take_assignments()
        self.completed += self.scheduler.take_completed()

    @rule(count=st.integers(1, 4))
    def submit(self, count: int) -> None:
        self.submitted |= {self.scheduler.submit("x", self.now) for _ in range(count)}
        self.pump()

    @precondition(lambda self: self.submitted)
    @rule(index=INDEX)
    def cancel(self, index: int) -> None:
        task = sorted(self.submitted)[index % len(self.submitted)]
        self.scheduler.cancel(task)
        if task not in {done.task for done in self.completed}:
            self.cancelled.add(task)

    @rule(index=INDEX, lost=st.booleans())
    def deliver_assignment(self, index: int, lost: bool) -> None:
        if self.to_workers:
            sent = self.to_workers.pop(index % len(self.to_workers))
            if not lost and self.incarnation[sent.worker.slot] == sent.worker.incarnation:
                self.held[sent.worker.slot][sent.task] = sent.attempt

    @rule(slot=SLOTS)
    def work(self, slot: int) -> None:
        if self.held[slot]:
            task = next(iter(self.held[slot]))
            del self.held[slot][task]
            self.to_scheduler.append(lambda: self.scheduler.task_result(task, task * 7, self.now))

    @rule(slot=SLOTS)
    def report(self, slot: int) -> None:
        worker, held = ProcessId(slot, self.incarnation[slot]), frozenset(self.held[slot].items())
        running = next(iter(self.held[slot]), None)
        self.to_scheduler.append(lambda: self.scheduler.worker_report(worker, held, running, self.now))

    @rule(index=INDEX, how=st.sampled_from(["once", "once", "lost", "twice"]))
    def deliver_to_scheduler(self, index: int, how: str) -> None:
        if self.to_scheduler:
            message = self.to_scheduler.pop(index % len(self.to_scheduler))
            for _ in range({"once": 1, "lost": 0, "twice": 2}[how]):
                message()
                self.pump()

    @rule(slot=SLOTS, noticed=st.booleans())
    def kill(self, slot: int, noticed: bool) -> None:
        self.incarnation[slot] += 1
        self.held[slot] = {}
        if noticed:
            self.scheduler.worker_died(slot, self.incarnation[slot], self.now)
            self.pump()
        self.report(slot)

    @rule(slot=SLOTS)
    def unreachable(self, slot: int) -> None:
        self.scheduler.unreachable(ProcessId(slot, self.incarnation[slot]), self.now)
        self.pump()

    @rule(seconds=st.floats(0.1, 40))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.scheduler.tick(self.now)
        self.pump()

    @invariant()
    def every_task_is_in_one_place(self) -> None:
        ends = [done.task for done in self.completed]
        assert len(ends) == len(set(ends))
        assert all(done.result == done.task * 7 for done in self.completed)
        assert set(ends) | set(self.scheduler._tasks) | self.cancelled == self.submitted
        assert not set(ends) & self.cancelled
        queued = list(self.scheduler._queued)
        assert len(queued) == len(set(queued))
        held = Counter(task for worker in self.scheduler._workers.values() for task in worker.held)
        for task, state in self.scheduler._tasks.items():
            assert held[task] + queued.count(task) == 1, "queued, or held by one worker"
            holders = [worker.held[task].attempt for worker in self.scheduler._workers.values() if task in worker.held]
            assert not holders or holders == [state.attempt]

    @invariant()
    def no_worker_holds_more_than_two(self) -> None:
        assert all(len(worker.held) <= 2 for worker in self.scheduler._workers.values())

    def teardown(self) -> None:
        for _ in range(300):
            if not self.scheduler.outstanding:
                break
            self.now += 1.0
            while self.to_workers:
                self.deliver_assignment(0, False)
            for slot in self.held:
                while self.held[slot]:
                    self.work(slot)
                self.report(slot)
            while self.to_scheduler:
                self.deliver_to_scheduler(0, "once")
            self.wait(0.1)
        self.every_task_is_in_one_place()
        assert self.scheduler.outstanding == 0, "on a reliable channel everything completes"


LossyChannel.TestCase.settings = settings(max_examples=80, stateful_step_count=50)
TestLossyChannel = LossyChannel.TestCase
