"""The dispatcher alone, and against a channel that loses, doubles and reorders, with workers killed at any step."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from rollup_node.ipc.bus.dispatch import ELSEWHERE, TASK_ID_SHIFT, Dispatcher, Done, Send
from rollup_node.ipc.wire.process_id import ProcessId

A, B = ProcessId(1, 1), ProcessId(2, 1)
NOTHING: frozenset[tuple[int, int]] = frozenset()


@dataclass
class Desk:
    """A dispatcher with its counters and a clock."""

    counters: Counter[str] = field(default_factory=Counter)
    now: float = 100.0

    def __post_init__(self) -> None:
        self.core = Dispatcher(7, self.counters, patience=2.0, deadline=60.0)

    def submit(self, body: str = "work") -> int:
        return self.core.submit(body, self.now)

    def report(self, worker: ProcessId, *holds: Send, running: int | None = None) -> None:
        self.core.report(worker, frozenset((send.task, send.attempt) for send in holds), running, self.now)

    def sends(self) -> list[Send]:
        return self.core.take_sends()

    def send(self) -> Send:
        (one,) = self.sends()
        return one


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_ids_start_at_the_incarnation(desk: Desk) -> None:
    assert [desk.submit(), desk.submit()] == [(7 << TASK_ID_SHIFT) + 1, (7 << TASK_ID_SHIFT) + 2]


def test_a_task_waits_for_a_worker_and_ends_with_its_result(desk: Desk) -> None:
    task = desk.submit("body")
    assert desk.sends() == []
    desk.report(A)
    assert desk.send() == Send(A, task, 1, "body")
    desk.core.result(task, 42, desk.now)
    assert desk.core.take_done() == [Done(task, 42, None)]
    assert desk.core.outstanding == 0


def test_a_worker_gets_one_task_more_than_it_runs(desk: Desk) -> None:
    first, second, third = (desk.submit() for _ in range(3))
    desk.report(A)
    one = desk.send()
    assert one.task == first
    desk.report(A, one, running=ELSEWHERE)
    assert desk.sends() == []
    desk.report(A, one, running=first)
    two = desk.send()
    assert two.task == second
    desk.core.result(first, 0, desk.now)
    assert desk.sends() == []
    desk.report(A, two, running=second)
    assert desk.send().task == third


def test_the_idle_worker_comes_first(desk: Desk) -> None:
    first = desk.submit()
    desk.report(A)
    desk.report(A, desk.send(), running=first)
    desk.report(B)
    desk.submit()
    assert desk.send().worker == B


def test_a_second_result_is_only_counted(desk: Desk) -> None:
    task = desk.submit()
    desk.report(A)
    desk.core.result(task, 1, desk.now)
    desk.core.result(task, 2, desk.now)
    assert desk.core.take_done() == [Done(task, 1, None)]
    assert desk.counters["task_duplicates"] == 1


def test_an_old_dispatchers_result_is_nobodys(desk: Desk) -> None:
    desk.submit()
    desk.core.result((6 << TASK_ID_SHIFT) + 1, "old", desk.now)
    assert desk.core.take_done() == [] and desk.core.outstanding == 1


def test_a_cancelled_task_is_not_sent_and_its_result_ignored(desk: Desk) -> None:
    first, second = desk.submit(), desk.submit()
    desk.core.cancel(second)
    assert list(desk.core._waiting) == [first], "it takes no room while there is no worker"
    desk.report(A)
    assert desk.send().task == first
    desk.core.cancel(first)
    desk.core.result(first, 1, desk.now)
    desk.report(A)
    assert desk.sends() == [] and desk.core.take_done() == []


def test_a_newer_incarnation_proves_the_older_dead(desk: Desk) -> None:
    task = desk.submit()
    desk.report(A)
    desk.sends()
    desk.report(ProcessId(1, 2))
    assert desk.send() == Send(ProcessId(1, 2), task, 2, "work")
    desk.report(A)
    assert desk.core.workers == [ProcessId(1, 2)], "a ghost's report changes nothing"


def test_a_death_on_the_board_gives_the_task_to_another(desk: Desk) -> None:
    task = desk.submit()
    desk.report(A)
    desk.sends()
    desk.report(B)
    desk.core.died(1, 2, desk.now)
    assert desk.send() == Send(B, task, 2, "work")
    assert desk.counters["tasks_reissued"] == 1


def test_a_task_once_listed_and_no_longer_is_lost(desk: Desk) -> None:
    desk.submit()
    desk.report(A)
    one = desk.send()
    desk.report(A, one)
    desk.report(A)
    assert desk.send().attempt == 2


def test_a_task_never_listed_is_lost_after_some_patience(desk: Desk) -> None:
    desk.submit()
    desk.report(A)
    desk.sends()
    desk.now += 1.9
    desk.report(A)
    assert desk.sends() == []
    desk.now += 0.2
    desk.report(A)
    assert desk.send().attempt == 2


def test_a_task_that_takes_too_long_goes_to_another(desk: Desk) -> None:
    desk.submit()
    desk.report(A)
    one = desk.send()
    desk.report(A, one, running=one.task)
    desk.report(B)
    desk.now += 61
    desk.core.tick(desk.now)
    assert desk.send().attempt == 2


def test_an_unreachable_worker_is_forgotten_until_it_reports(desk: Desk) -> None:
    desk.submit()
    desk.report(A)
    desk.sends()
    desk.core.unreachable(A, desk.now)
    assert desk.sends() == []
    desk.report(A)
    assert desk.send().attempt == 2


def kill_by_board(desk: Desk, worker: ProcessId) -> None:
    desk.core.died(worker.row, worker.incarnation + 1, desk.now)


def kill_by_report(desk: Desk, worker: ProcessId) -> None:
    desk.report(ProcessId(worker.row, worker.incarnation + 1))


@pytest.mark.parametrize("kill", [kill_by_board, kill_by_report])
def test_the_third_death_ends_a_task_with_a_reason(desk: Desk, kill: Callable[[Desk, ProcessId], None]) -> None:
    task = desk.submit()
    for incarnation in (1, 2, 3):
        worker = ProcessId(1, incarnation)
        desk.report(worker)
        assert desk.send().worker == worker
        kill(desk, worker)
    assert desk.core.take_done() == [Done(task, None, "3 workers died of it")]
    assert desk.counters["tasks_poisoned"] == 1 and desk.core.outstanding == 0


def test_only_the_task_that_ran_is_suspected(desk: Desk) -> None:
    guilty, innocent = desk.submit(), desk.submit()
    for incarnation in (1, 2, 3):
        worker = ProcessId(1, incarnation)
        desk.report(worker)
        one = desk.send()
        assert one.task == guilty, "a suspect is given again before others"
        desk.report(worker, one, running=guilty)
        desk.sends()
        kill_by_board(desk, worker)
    assert [done.task for done in desk.core.take_done()] == [guilty]
    desk.report(B)
    assert desk.send().task == innocent


def test_a_suspect_is_alone_in_its_workers_hands(desk: Desk) -> None:
    suspect = desk.submit()
    desk.report(A)
    desk.sends()
    kill_by_board(desk, A)
    desk.submit()
    desk.report(B)
    one = desk.send()
    assert one.task == suspect
    desk.report(B, one, running=suspect)
    assert desk.sends() == []


def test_a_worker_killed_elsewhere_clears_our_tasks(desk: Desk) -> None:
    task = desk.submit()
    for incarnation in range(1, 7):
        worker = ProcessId(1, incarnation)
        desk.report(worker)
        desk.report(worker, desk.send(), running=ELSEWHERE)
        kill_by_board(desk, worker)
    desk.report(B)
    assert desk.send().task == task and desk.core.take_done() == []


def test_answers_refused_three_times_end_a_task(desk: Desk) -> None:
    task = desk.submit()
    for _ in range(3):
        desk.report(A)
        desk.sends()
        desk.core.spoiled(A, task, desk.now)
    assert [done.task for done in desk.core.take_done()] == [task]


def test_a_worker_may_say_that_nobody_can(desk: Desk) -> None:
    task = desk.submit()
    desk.report(A)
    desk.core.failed(task, "malformed", desk.now)
    assert desk.core.take_done() == [Done(task, None, "malformed")]


ROWS = st.integers(1, 3)
INDEX = st.integers(0, 50)


class LossyHistory(RuleBasedStateMachine):
    """Three workers behind a bad channel. Every task ends exactly once and is always waiting or in somebody's hands."""

    def __init__(self) -> None:
        super().__init__()
        self.counters: Counter[str] = Counter()
        self.core = Dispatcher(2, self.counters, max_deaths=10**9)
        self.now = 0.0
        self.submitted: set[int] = set()
        self.cancelled: set[int] = set()
        self.ended: list[Done] = []
        self.incarnation = dict.fromkeys((1, 2, 3), 1)
        self.hands: dict[int, dict[int, int]] = {1: {}, 2: {}, 3: {}}
        self.to_workers: list[Send] = []
        self.to_core: list[Callable[[], None]] = []
        for row in self.incarnation:
            self.report(row)

    def pump(self) -> None:
        self.to_workers += self.core.take_sends()
        self.ended += self.core.take_done()

    @rule(count=st.integers(1, 4))
    def submit(self, count: int) -> None:
        self.submitted |= {self.core.submit("x", self.now) for _ in range(count)}
        self.pump()

    @precondition(lambda self: self.submitted)
    @rule(index=INDEX)
    def cancel(self, index: int) -> None:
        task = sorted(self.submitted)[index % len(self.submitted)]
        self.core.cancel(task)
        if task not in {done.task for done in self.ended}:
            self.cancelled.add(task)

    @rule(index=INDEX, lost=st.booleans())
    def deliver_task(self, index: int, lost: bool) -> None:
        if self.to_workers:
            send = self.to_workers.pop(index % len(self.to_workers))
            if not lost and self.incarnation[send.worker.row] == send.worker.incarnation:
                self.hands[send.worker.row][send.task] = send.attempt

    @rule(row=ROWS)
    def work(self, row: int) -> None:
        if self.hands[row]:
            task = next(iter(self.hands[row]))
            del self.hands[row][task]
            self.to_core.append(lambda: self.core.result(task, task * 7, self.now))

    @rule(row=ROWS)
    def report(self, row: int) -> None:
        worker, holds = ProcessId(row, self.incarnation[row]), frozenset(self.hands[row].items())
        running = next(iter(self.hands[row]), None)
        self.to_core.append(lambda: self.core.report(worker, holds, running, self.now))

    @rule(index=INDEX, how=st.sampled_from(["once", "once", "lost", "twice"]))
    def deliver_to_core(self, index: int, how: str) -> None:
        if self.to_core:
            message = self.to_core.pop(index % len(self.to_core))
            for _ in range({"once": 1, "lost": 0, "twice": 2}[how]):
                message()
                self.pump()

    @rule(row=ROWS, told=st.booleans())
    def kill(self, row: int, told: bool) -> None:
        self.incarnation[row] += 1
        self.hands[row] = {}
        if told:
            self.core.died(row, self.incarnation[row], self.now)
            self.pump()
        self.report(row)

    @rule(row=ROWS)
    def unreachable(self, row: int) -> None:
        self.core.unreachable(ProcessId(row, self.incarnation[row]), self.now)
        self.pump()

    @rule(seconds=st.floats(0.1, 40))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.core.tick(self.now)
        self.pump()

    @invariant()
    def every_task_is_somewhere_once(self) -> None:
        ends = [done.task for done in self.ended]
        assert len(ends) == len(set(ends))
        assert all(done.value == done.task * 7 for done in self.ended)
        assert set(ends) | set(self.core._tasks) | self.cancelled == self.submitted
        assert not set(ends) & self.cancelled
        waiting = list(self.core._waiting)
        assert len(waiting) == len(set(waiting))
        held = Counter(task for worker in self.core._workers.values() for task in worker.held)
        for task, state in self.core._tasks.items():
            assert held[task] + waiting.count(task) == 1, "waiting, or in one worker's hands"
            holders = [worker.held[task].attempt for worker in self.core._workers.values() if task in worker.held]
            assert not holders or holders == [state.attempt]

    @invariant()
    def credit_is_kept(self) -> None:
        assert all(len(worker.held) <= 2 for worker in self.core._workers.values())

    def teardown(self) -> None:
        for _ in range(300):
            if not self.core.outstanding:
                break
            self.now += 1.0
            while self.to_workers:
                self.deliver_task(0, False)
            for row in self.hands:
                while self.hands[row]:
                    self.work(row)
                self.report(row)
            while self.to_core:
                self.deliver_to_core(0, "once")
            self.wait(0.1)
        self.every_task_is_somewhere_once()
        assert self.core.outstanding == 0, "on a kind channel everything ends"


LossyHistory.TestCase.settings = settings(max_examples=150, stateful_step_count=50)
TestLossyHistory = LossyHistory.TestCase
