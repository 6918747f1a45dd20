"""What the rows of the engine core have in common: pauses after failures, and the contract of a row."""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from rollup_node.ipc.wire.process_id import ProcessId
from rollup_node.stages.engine.calls import actions
from rollup_node.stages.engine.calls.calls import (
    CallPurpose,
    CoreAnswer,
    CoreCall,
    Instant,
    PendingCall,
    Read,
    ReadAnswer,
)
from rollup_node.stages.engine.calls.engine_api import ForkchoiceUpdate, Unavailable, is_syncing
from rollup_node.stages.protocol.errors import TemporaryError
from rollup_node.stages.protocol.pacing import backoff

if TYPE_CHECKING:
    from rollup_node.stages.engine.core.state import CoreState

FIRST_SECONDS = 1.0
MAX_SECONDS = 10.0


class TaskBackoff:
    """Times are monotonic seconds. `jitter` returns the seconds to add to a pause; `first` is the first pause."""

    def __init__(self, jitter: Callable[[], float] = lambda: 0.0, first: float = FIRST_SECONDS) -> None:
        self._jitter, self._first = jitter, first
        self._failures: dict[str, int] = {}
        self._retry_at: dict[str, float] = {}

    def fail(self, task: str, now: float, pause: float | None = None) -> float:
        """Note a temporary failure; return the seconds until the task may go on, those of `pause` if it is set."""
        failures = self._failures.get(task, 0)
        self._failures[task] = failures + 1
        seconds = self._pause(failures) if pause is None else pause
        self._retry_at[task] = now + seconds
        return seconds

    def reset(self, task: str, now: float) -> float:
        """Note a reset; the seconds until the task may go on, 0 unless it has failed before."""
        failures = self._failures.get(task, 0)
        return self.fail(task, now, self._pause(failures - 1) if failures else 0.0)

    def recover(self, task: str) -> int:
        """Note that the task works; returns how often it failed before, 0 if it did not."""
        self._retry_at.pop(task, None)
        return self._failures.pop(task, 0)

    def is_waiting(self, task: str, now: float) -> bool:
        """Return whether the task must not go on yet."""
        return now < self._retry_at.get(task, now)

    def next_retry(self, now: float) -> float | None:
        """Return when the next task may go on; None if none is waiting."""
        return min((at for at in self._retry_at.values() if at > now), default=None)

    def _pause(self, failures: int) -> float:
        return backoff(failures + 1, self._first, MAX_SECONDS) + self._jitter()


class Row(ABC):
    """A row of the priority table: which call is due, and what follows from its answer.

    `outlives_resets`: answers count to calls that were made before a reset. `takes_silence`: that there is no answer is
    one as well. The attributes of a class are what its row begins with."""

    outlives_resets = takes_silence = False

    def __init__(self, core: "CoreState") -> None:
        self._core = core

    @property
    @abstractmethod
    def purpose(self) -> CallPurpose:
        """The purpose of the next call."""

    @abstractmethod
    def due(self, now: Instant) -> CoreCall | None:
        """Return the call to make now. Raises TemporaryError and ResetError as `answer`."""

    @abstractmethod
    def answer(self, pending: PendingCall, answer: CoreAnswer, now: Instant) -> None:
        """Take the answer to a call of this row. Raises TemporaryError for another try, and ResetError."""

    def unavailable(self, pending: PendingCall, answer: Unavailable, now: Instant) -> None:
        """Take that there is no answer. Raises TemporaryError, so that the call is made again."""
        if self.takes_silence:
            self.answer(pending, answer, now)
        elif not (answer.unreadable and self._core.el_sync.take_unreadable(pending.call)):
            raise TemporaryError(answer.reason, answer.code)

    def failed(self, call: CoreCall | None, error: TemporaryError, now: Instant) -> float | None:
        """Pause the calls; return the seconds until a failed forkchoice update is due, None for at once."""
        return self._core.fail(self.purpose, error, now)


def moves_heads(call: CoreCall | None) -> bool:
    """Return whether a call is a forkchoice update for this node's heads."""
    return isinstance(call, ForkchoiceUpdate) and call.attributes is None


class HeadRow(Row):
    """A row that moves heads. `take` is for answers that may wait for a forkchoice update [ENG38]."""

    def answer(self, pending: PendingCall, answer: CoreAnswer, now: Instant) -> None:
        if moves_heads(pending.call):
            self._core.forkchoice_row.answer(pending, answer, now)
        elif not (is_syncing(answer) and self._hold(pending, answer)):
            self.take(pending, answer, now)

    def take(self, pending: PendingCall, answer: CoreAnswer, now: Instant) -> None:
        """Process an answer, which may have been held back."""

    def finished(self, now: Instant) -> None:
        """Note that the block of this row has become the engine's head."""

    def _hold(self, pending: PendingCall, answer: CoreAnswer) -> bool:
        """Return whether the heads are sent again before the answer counts: the engine may lack them [ENG38]."""
        core = self._core
        core.controller.distrust()
        if core.controller.forkchoice_due() is None:
            return False
        core.held = (self, pending, answer)
        return True

    def unavailable(self, pending: PendingCall, answer: Unavailable, now: Instant) -> None:
        """Raise TemporaryError, unless the build under way has to be given up."""
        if not self.takes_silence and self._core.ends_build(pending.call, answer):
            self.answer(pending, answer, now)
        else:
            super().unavailable(pending, answer, now)


class ReadRow(Row):
    """Requests of other processes that are calls themselves, oldest first; each until it is answered."""

    outlives_resets = True
    purpose = CallPurpose.OUTPUT

    def __init__(self, core: "CoreState", purpose: CallPurpose, bound: int = 64) -> None:
        super().__init__(core)
        self.purpose, self._bound = purpose, bound
        self._waiting: deque[tuple[ProcessId, Read]] = deque()

    def add(self, peer: ProcessId, request: Read) -> None:
        """Take a request, unless it is waiting already or there is no room."""
        if (peer, request) not in self._waiting and len(self._waiting) < self._bound:
            self._waiting.append((peer, request))

    def due(self, now: Instant) -> Read | None:
        """Return the oldest request."""
        return self._waiting[0][1] if self._waiting else None

    def answer(self, pending: PendingCall, answer: CoreAnswer, now: Instant) -> None:
        """Send the response to the process that made the oldest request."""
        peer, _ = self._waiting.popleft()
        if isinstance(answer, ReadAnswer):
            self._core.do(actions.Send(peer, answer))

    def unavailable(self, pending: PendingCall, answer: Unavailable, now: Instant) -> None:
        """Drop the oldest request, which its process repeats."""
        self._waiting.popleft()
