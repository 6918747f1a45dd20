"""Which worker does which task: a pure core, events in, sends and ends out.

Every event may be lost, late or doubled; a worker's report is its whole state, not a change. A task has one holder at
a time: it is given out again when its worker has died, stays silent about it, or takes too long, so it is always
waiting or in somebody's hands, and it ends exactly once. A worker gets one task more than the one it runs, never
two. A task that was the only suspect in a worker's death is given to an empty worker alone; the third death ends it."""

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rollup_node.ipc.wire.process_id import ProcessId

TASK_ID_SHIFT = 40
ELSEWHERE = 0
"""What a worker reports as running when it runs another dispatcher's task."""


class Send(NamedTuple):
    """Give this task to this worker now."""

    worker: ProcessId
    task: int
    attempt: int
    body: Any


class Done(NamedTuple):
    """The end of a task: its value, or why there is none."""

    task: int
    value: Any
    failure: str | None


@dataclass
class _Task:
    body: Any
    attempt: int = 0
    deaths: int = 0


@dataclass
class _Held:
    attempt: int
    sent: float
    seen: bool = False


@dataclass
class _Worker:
    held: dict[int, _Held] = field(default_factory=dict)
    running: int | None = None


class Dispatcher:
    """Hands tasks to workers. Times in seconds of any clock that only rises.

    `patience` is how long a task sent may be missing from its worker's reports, `deadline` how long it may stay in
    one worker's hands, `max_deaths` how many workers it may kill. Adds to `counters` tasks_reissued, tasks_poisoned
    and task_duplicates (results that nobody waits for)."""

    def __init__(
        self,
        incarnation: int,
        counters: Counter[str],
        *,
        patience: float = 2.0,
        deadline: float = 120.0,
        max_deaths: int = 3,
    ) -> None:
        self.patience, self.deadline, self.max_deaths = patience, deadline, max_deaths
        self._counters = counters
        self._last = incarnation << TASK_ID_SHIFT
        self._tasks: dict[int, _Task] = {}
        self._waiting: deque[int] = deque()
        self._workers: dict[ProcessId, _Worker] = {}
        self._living: dict[int, int] = {}
        self._sends: list[Send] = []
        self._done: list[Done] = []

    @property
    def outstanding(self) -> int:
        """Tasks that have not ended."""
        return len(self._tasks)

    @property
    def workers(self) -> list[ProcessId]:
        """The workers that may hold tasks."""
        return list(self._workers)

    def take_sends(self) -> list[Send]:
        """What is to be sent since the last call."""
        sends, self._sends = self._sends, []
        return sends

    def take_done(self) -> list[Done]:
        """The tasks that have ended since the last call."""
        done, self._done = self._done, []
        return done

    def submit(self, body: Any, now: float) -> int:
        """A new task; its id is never used again, nor by another incarnation."""
        self._last += 1
        self._tasks[self._last] = _Task(body)
        self._waiting.append(self._last)
        self._fill(now)
        return self._last

    def cancel(self, task: int) -> None:
        """Nobody wants the task any more. A worker that has it goes on; its result is ignored."""
        if self._tasks.pop(task, None) is not None and task in self._waiting:
            self._waiting.remove(task)

    def report(self, worker: ProcessId, holds: frozenset[tuple[int, int]], running: int | None, now: float) -> None:
        """The worker's whole state: (task, attempt) pairs in its hands, and the one it runs (None, or ELSEWHERE)."""
        living = self._living.get(worker.row, 0)
        if worker.incarnation < living:
            return
        if worker.incarnation > living:
            self.died(worker.row, worker.incarnation, now)
        state = self._workers.setdefault(worker, _Worker())
        state.running = running
        for task, held in reversed(list(state.held.items())):
            if (task, held.attempt) in holds:
                held.seen = True
            elif held.seen or now - held.sent > self.patience:
                self._give_back(worker, task, died=False)
        self._fill(now)

    def result(self, task: int, value: Any, now: float) -> None:
        """A worker's answer, from whichever attempt."""
        self._end(task, value, None)
        self._fill(now)

    def failed(self, task: int, reason: str, now: float) -> None:
        """A worker says that nobody can run the task."""
        self._end(task, None, reason)
        self._fill(now)

    def spoiled(self, worker: ProcessId, task: int, now: float) -> None:
        """The worker's answer was refused: counts as a death, lest it be asked for ever."""
        state = self._workers.get(worker)
        if state is not None and task in state.held:
            self._give_back(worker, task, died=True)
        self._fill(now)

    def died(self, row: int, living: int, now: float) -> None:
        """All incarnations of the row before `living` are dead."""
        self._living[row] = max(living, self._living.get(row, 0))
        for worker in [known for known in self._workers if known.row == row and known.incarnation < living]:
            state = self._workers[worker]
            suspects = _suspects(state)
            for task in reversed(list(state.held)):
                self._give_back(worker, task, died=task in suspects)
            del self._workers[worker]
        self._fill(now)

    def unreachable(self, worker: ProcessId, now: float) -> None:
        """A send failed: the worker gets nothing before its next report, and what it has goes to others."""
        state = self._workers.get(worker)
        if state is not None:
            for task in reversed(list(state.held)):
                self._give_back(worker, task, died=False)
            del self._workers[worker]
        self._fill(now)

    def tick(self, now: float) -> None:
        """Time has passed."""
        for worker, state in list(self._workers.items()):
            for task, held in reversed(list(state.held.items())):
                if now - held.sent > self.deadline:
                    self._give_back(worker, task, died=False)
        self._fill(now)

    def _end(self, task: int, value: Any, failure: str | None) -> None:
        ended = self._tasks.pop(task, None)
        for state in self._workers.values():
            if state.held.pop(task, None) is not None and state.running == task:
                state.running = None
        if ended is None:
            self._counters["task_duplicates"] += 1
        else:
            self._done.append(Done(task, value, failure))

    def _give_back(self, worker: ProcessId, task: int, *, died: bool) -> None:
        del self._workers[worker].held[task]
        lost = self._tasks.get(task)
        if lost is None:
            return
        lost.deaths += died
        if lost.deaths >= self.max_deaths:
            self._counters["tasks_poisoned"] += 1
            self._end(task, None, f"{lost.deaths} workers died of it")
        else:
            self._counters["tasks_reissued"] += 1
            self._waiting.appendleft(task)

    def _fill(self, now: float) -> None:
        while self._waiting:
            id_ = self._waiting[0]
            task = self._tasks.get(id_)
            if task is None:
                self._waiting.popleft()
                continue
            worker = self._choose(alone=task.deaths > 0)
            if worker is None:
                return
            self._waiting.popleft()
            task.attempt += 1
            self._workers[worker].held[id_] = _Held(task.attempt, now)
            self._sends.append(Send(worker, id_, task.attempt, task.body))

    def _choose(self, *, alone: bool) -> ProcessId | None:
        free = [
            (len(state.held), worker)
            for worker, state in self._workers.items()
            if (not state.held if alone else self._has_room(state))
        ]
        return min(free)[1] if free else None

    def _has_room(self, state: _Worker) -> bool:
        if any(task in self._tasks and self._tasks[task].deaths for task in state.held):
            return False
        return len(state.held) - (state.running in state.held) < 1


def _suspects(state: _Worker) -> set[int]:
    """Which tasks may have killed the worker: the one it ran, or any when that is not known."""
    if state.running == ELSEWHERE:
        return set()
    return {state.running} if state.running in state.held else set(state.held)
