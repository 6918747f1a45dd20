"""What the rows of the engine core have in common: the context in which they work, and the contract of a row."""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable

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
from rollup_node.stages.engine.calls.engine_api import ForkchoiceUpdate, GetPayload, Unavailable, is_syncing
from rollup_node.stages.engine.calls.heads import Heads
from rollup_node.stages.engine.calls.stimulus_log import StimulusLog
from rollup_node.stages.engine.config import EngineConfig
from rollup_node.stages.engine.heads.engine_controller import EngineController
from rollup_node.stages.engine.heads.verification import Verification
from rollup_node.stages.messages.base import Problem
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.control import ControlResponse
from rollup_node.stages.messages.engine import AttributesResult, PipelineStart
from rollup_node.stages.messages.log_fields import FieldValue
from rollup_node.stages.protocol.errors import StageError, TemporaryError
from rollup_node.stages.protocol.pacing import backoff
from rollup_node.stages.protocol.types import Hash, L2BlockRef

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


class CoreContext(ABC):
    """The state that several rows write, and the changes of several topics that a row may ask for.

    `unconfirmed` is a start whose heads the engine has not accepted yet. `forkchoice_at` is when a pending forkchoice
    update is due; `finishing` the row whose block was inserted and is to become the head now; `held` an answer that is
    processed after a forkchoice update; `doubted` the tip that the engine may have lost, with the purpose of the update
    that showed it. Times are monotonic seconds."""

    def __init__(self, config: EngineConfig, backoff: TaskBackoff) -> None:
        self.config, self.backoff = config, backoff
        self.controller = EngineController()
        self.verification = Verification(config.rollup.l2_chain_id, config.verified)
        self.log = StimulusLog()
        self.actions: list[actions.Action] = []
        self.reset_count = 0
        self.unconfirmed: PipelineStart | None = None
        self.forkchoice_at = 0.0
        self.finishing: HeadRow | None = None
        self.held: tuple[HeadRow, PendingCall, CoreAnswer] | None = None
        self.doubted: tuple[CallPurpose, L2BlockRef] | None = None
        self._failed_fetch: CoreCall | None = None
        self.forkchoice_row: HeadRow

    @property
    def confirmed_heads(self) -> Heads | None:
        """The heads in force, which the engine has accepted once; None before that."""
        return None if self.unconfirmed is not None else self.controller.heads

    @property
    def replaces(self) -> bool:
        """Whether a denied block may stand in the chain, or is not replaced yet: nothing unsafe is taken in [IV6]."""
        heads, verification = self.controller.heads, self.verification
        if not verification.enabled:
            return False
        return verification.goes_back or (heads is not None and verification.denies_above(heads.unsafe.number))

    # --- actions, failures -----------------------------------------------------------------------------------------

    def do(self, action: actions.Action) -> None:
        """Add an action for the process."""
        self.actions.append(action)

    def respond(self, peer: ProcessId, number: int, error: str | None, head: Hash | None = None) -> None:
        """Answer an admin call of the rpc process."""
        self.do(actions.Send(peer, ControlResponse(number, error, head)))

    def write(self, level: actions.LogLevel, text: str, code: Code | None = None, /, **fields: FieldValue) -> None:
        """Have a line written to the log."""
        self.do(actions.LogLine(level, text, code, fields))

    def waits(self, purpose: CallPurpose, now: Instant) -> bool:
        """Return whether calls of this purpose pause after a failure."""
        return self.backoff.is_waiting(purpose.task, now.monotonic)

    def fail(
        self, purpose: CallPurpose, error: StageError, now: Instant, *, reason: str = "", pause: float | None = None
    ) -> float:
        """Note a temporary failure of a kind; return the seconds until the next attempt, or `pause` if it is set."""
        seconds = self.backoff.fail(purpose.task, now.monotonic, pause)
        problem = Problem.of(error)
        self.log.add(now.unix, "failed", purpose, str(problem))
        self.do(
            actions.WorkFailed(purpose.task, actions.Severity.TEMPORARY, problem.text, seconds, reason, problem.code)
        )
        return seconds

    def recover(self, purpose: CallPurpose) -> None:
        """Note that work of this purpose succeeded."""
        if self.backoff.recover(purpose.task):
            self.do(actions.WorkRecovered(purpose.task))

    def ends_build(self, call: CoreCall, answer: Unavailable) -> bool:
        """Return whether a block is not fetched again: it cannot be read, or was not there twice [ENG21, SEQ6]."""
        if not isinstance(call, GetPayload):
            return False
        again = call == self._failed_fetch
        self._failed_fetch = None if again else call
        return again or answer.unreadable

    def drop_moves(self) -> bool:
        """Forget the moves under way after a failed call; returns whether the engine was doubted."""
        doubted, self.held, self.finishing, self.doubted = self.doubted, None, None, None
        return doubted is not None

    # --- other topics ----------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def building_derived(self) -> bool:
        """Whether a derived block is being built, so that nothing else may build on the tip."""

    @property
    @abstractmethod
    def fetched(self) -> L2BlockRef | None:
        """The block that the engine was pointed at and does not have yet; None if it fetches nothing for us."""

    @property
    @abstractmethod
    def may_join(self) -> bool:
        """Whether the next derived block may be started with the update to the last one [ENG40]."""

    @abstractmethod
    def holds_for_sync(self, now: Instant) -> bool:
        """Return whether nothing is inserted or built.

        The engine is to get on with a follow source's block, or a denied block is to be replaced first [IV6]."""

    @abstractmethod
    def take_unreadable(self, call: CoreCall) -> bool:
        """Return whether it is an answer for EL sync that the engine does not have a block whole."""

    @abstractmethod
    def take_forkchoice(self, pending: PendingCall, answer: CoreAnswer) -> AttributesResult | None:
        """Take the answer to an update for the heads. Raises TemporaryError and ResetError."""

    @abstractmethod
    def publish(self, now: Instant) -> None:
        """Publish heads that may have moved."""

    @abstractmethod
    def confirm(self, now: Instant) -> None:
        """Note that the engine has accepted the heads in force."""

    @abstractmethod
    def report(self, result: AttributesResult | None, now: Instant) -> None:
        """Tell derivation, finality and the sequencer the result of derived attributes."""

    @abstractmethod
    def send_result(self, result: AttributesResult) -> None:
        """Send derivation a result, once the safe head that results is recorded [SDB13]."""

    @abstractmethod
    def on_derived_build(self) -> None:
        """Note that a derived block is being built."""

    @abstractmethod
    def request_reset(self, reason: str, now: Instant) -> None:
        """Reset, unless a start is being searched for; ask an interop supervisor that has not chosen one again."""

    @abstractmethod
    def force_start(self, heads: Heads | None, now: Instant) -> None:
        """Start over at heads that an interop supervisor chose, None: where the ordinary search finds them [IOP20]."""


class Row(ABC):
    """A row of the priority table: which call is due, and what follows from its answer.

    `outlives_resets`: answers count to calls that were made before a reset. `takes_silence`: that there is no answer is
    one as well."""

    outlives_resets = takes_silence = False

    def __init__(self, core: CoreContext) -> None:
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
        elif not (answer.unreadable and self._core.take_unreadable(pending.call)):
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

    def __init__(self, core: CoreContext, purpose: CallPurpose, bound: int = 64) -> None:
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
