"""Assignment of tasks to workers: a pure core that takes events and returns assignments and completed tasks.

Any event may be lost, late or duplicated, so a worker reports its whole state, not changes. A task is queued or held by
exactly one worker, and it completes exactly once: it is assigned again when its worker dies, does not report it, or
takes too long. A worker holds at most one task beside the one it runs. A task that may have killed a worker runs alone
on an idle worker from then on; the third death fails it."""

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rollup_node.ipc.wire.process_id import ProcessId

TASK_ID_SHIFT = 40
ELSEWHERE = 0
"""What a worker reports as running while it runs another dispatcher's task."""


class Assignment(NamedTuple):
    """A task to send to a worker now."""

    worker: ProcessId
    task: int
    attempt: int
    body: Any


class CompletedTask(NamedTuple):
    """The end of a task: its result, or the reason for its failure."""

    task: int
    result: Any
    failure: str | None


@dataclass
class _Task:
    body: Any
    attempt: int = 0
    deaths: int = 0


@dataclass
class _HeldTask:
    attempt: int
    sent: float
    reported: bool = False


@dataclass
class _WorkerState:
    held: dict[int, _HeldTask] = field(default_factory=dict)
    running: int | None = None


class TaskScheduler:
    """Assigns tasks to workers. Times in seconds of any monotonic clock.

    `report_timeout` bounds the time that a task may be missing from its worker's reports, `task_timeout` the time that
    one worker may hold it, `max_deaths` the workers it may kill. Adds to `counters` tasks_reissued, tasks_poisoned and
    task_duplicates (results of tasks that have completed or were cancelled)."""

    report_timeout, task_timeout, max_deaths = 2.0, 120.0, 3

    def __init__(self, incarnation: int, counters: Counter[str]) -> None:
        self._counters = counters
        self._last_id = incarnation << TASK_ID_SHIFT
        self._tasks: dict[int, _Task] = {}
        self._queued: deque[int] = deque()
        self._workers: dict[ProcessId, _WorkerState] = {}
        self._incarnations: dict[int, int] = {}
        self._assignments: list[Assignment] = []
        self._completed: list[CompletedTask] = []

    @property
    def outstanding(self) -> int:
        """The number of tasks that have not completed."""
        return len(self._tasks)

    @property
    def workers(self) -> list[ProcessId]:
        """The workers that may hold tasks."""
        return list(self._workers)

    def take_assignments(self) -> list[Assignment]:
        """Return the assignments since the last call."""
        assignments, self._assignments = self._assignments, []
        return assignments

    def take_completed(self) -> list[CompletedTask]:
        """Return the tasks that have completed since the last call."""
        completed, self._completed = self._completed, []
        return completed

    def submit(self, body: Any, now: float) -> int:
        """Queue a task. Returns its id, which no other incarnation of this process uses either."""
        self._last_id += 1
        self._tasks[self._last_id] = _Task(body)
        self._queued.append(self._last_id)
        self._assign(now)
        return self._last_id

    def cancel(self, task: int) -> None:
        """Drop a task. The worker that holds it runs it nevertheless; its result is ignored."""
        if self._tasks.pop(task, None) is not None and task in self._queued:
            self._queued.remove(task)

    def worker_report(
        self, worker: ProcessId, held: frozenset[tuple[int, int]], running: int | None, now: float
    ) -> None:
        """Take a worker's whole state: its (task, attempt) pairs, and the task it runs (None, or ELSEWHERE)."""
        incarnation = self._incarnations.get(worker.slot, 0)
        if worker.incarnation < incarnation:
            return
        if worker.incarnation > incarnation:
            self.worker_died(worker.slot, worker.incarnation, now)
        state = self._workers.setdefault(worker, _WorkerState())
        state.running = running
        for task, kept in reversed(list(state.held.items())):
            if (task, kept.attempt) in held:
                kept.reported = True
            elif kept.reported or now - kept.sent > self.report_timeout:
                self._take_back(worker, task, died=False)
        self._assign(now)

    def task_result(self, task: int, result: Any, now: float) -> None:
        """Take the result of a task, of whichever attempt."""
        self._complete(task, result, None)
        self._assign(now)

    def task_rejected(self, task: int, reason: str, now: float) -> None:
        """Drop a task of which a worker reports that no worker can run it."""
        self._complete(task, None, reason)
        self._assign(now)

    def result_rejected(self, worker: ProcessId, task: int, now: float) -> None:
        """Count a malformed result as a death, so that the task is not repeated for ever."""
        state = self._workers.get(worker)
        if state is not None and task in state.held:
            self._take_back(worker, task, died=True)
        self._assign(now)

    def worker_died(self, slot: int, incarnation: int, now: float) -> None:
        """All processes of the slot before `incarnation` are dead."""
        self._incarnations[slot] = max(incarnation, self._incarnations.get(slot, 0))
        for worker in [known for known in self._workers if known.slot == slot and known.incarnation < incarnation]:
            state = self._workers[worker]
            suspects = _suspects(state)
            for task in reversed(list(state.held)):
                self._take_back(worker, task, died=task in suspects)
            del self._workers[worker]
        self._assign(now)

    def unreachable(self, worker: ProcessId, now: float) -> None:
        """Give a worker to which a send failed no task before its next report, and what it holds to others."""
        state = self._workers.get(worker)
        if state is not None:
            for task in reversed(list(state.held)):
                self._take_back(worker, task, died=False)
            del self._workers[worker]
        self._assign(now)

    def tick(self, now: float) -> None:
        """Take back the tasks that exceed `task_timeout`."""
        for worker, state in list(self._workers.items()):
            for task, held in reversed(list(state.held.items())):
                if now - held.sent > self.task_timeout:
                    self._take_back(worker, task, died=False)
        self._assign(now)

    def _complete(self, task: int, result: Any, failure: str | None) -> None:
        completed = self._tasks.pop(task, None)
        for state in self._workers.values():
            if state.held.pop(task, None) is not None and state.running == task:
                state.running = None
        if completed is None:
            self._counters["task_duplicates"] += 1
        else:
            self._completed.append(CompletedTask(task, result, failure))

    def _take_back(self, worker: ProcessId, task: int, *, died: bool) -> None:
        del self._workers[worker].held[task]
        lost = self._tasks.get(task)
        if lost is None:
            return
        lost.deaths += died
        if lost.deaths >= self.max_deaths:
            self._counters["tasks_poisoned"] += 1
            self._complete(task, None, f"{lost.deaths} workers died of it")
        else:
            self._counters["tasks_reissued"] += 1
            self._queued.appendleft(task)

    def _assign(self, now: float) -> None:
        while self._queued:
            task_id = self._queued[0]
            task = self._tasks.get(task_id)
            if task is None:
                self._queued.popleft()
                continue
            worker = self._choose_worker(alone=task.deaths > 0)
            if worker is None:
                return
            self._queued.popleft()
            task.attempt += 1
            self._workers[worker].held[task_id] = _HeldTask(task.attempt, now)
            self._assignments.append(Assignment(worker, task_id, task.attempt, task.body))

    def _choose_worker(self, *, alone: bool) -> ProcessId | None:
        free = [
            (len(state.held), worker)
            for worker, state in self._workers.items()
            if (not state.held if alone else self._has_room(state))
        ]
        return min(free)[1] if free else None

    def _has_room(self, state: _WorkerState) -> bool:
        if any(task in self._tasks and self._tasks[task].deaths for task in state.held):
            return False
        return len(state.held) - (state.running in state.held) < 1


def _suspects(state: _WorkerState) -> set[int]:
    """Return the tasks that may have killed a worker: the one it ran, or all it held when that is unknown."""
    if state.running == ELSEWHERE:
        return set()
    return {state.running} if state.running in state.held else set(state.held)
