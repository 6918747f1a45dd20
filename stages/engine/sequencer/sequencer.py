"""When to build which block: the sequencer as a machine to which every call passes the time [SEQ1 to SEQ13].

| state       | event                                   | next state                                        |
|-------------|-----------------------------------------|---------------------------------------------------|
| not enabled | any admin call                          | not enabled; an error text [SEQ29]                |
| stopped     | start accepted                          | IDLE, due now [SEQ30]                             |
| IDLE        | due, attributes prepared, build started | BUILDING, due at the sealing time [SEQ31, SEQ32]  |
| BUILDING    | due, payload fetched                    | SEALED, due now [SEQ33, SEQ34]                    |
|             | the same with a conductor               | FETCHED, due now                                  |
| FETCHED     | due, commit sent                        | COMMITTING [CND5]                                 |
| COMMITTING  | committed                               | SEALED, due now                                   |
|             | commit failed                           | FETCHED, due in 1 s [SEQ21]                       |
| SEALED      | payload valid                           | IDLE, due at the time of the new head [SEQ35]     |
| any active  | reset, derived build, safe lag          | the same state, paused [SEQ36]                    |
| paused      | reset confirmed, forkchoice, lag gone   | not paused [SEQ37]                                |
| any active  | stop                                    | stopped, once a sealed block is inserted [SEQ38]  |
| any active  | leader overridden                       | the same; SEALED instead of the two before [CND7] |
| stopping    | no leader, SEALED                       | stopped [SEQ27]                                   |
"""

from enum import Enum, Flag, auto

import msgspec

from rollup_node.stages.engine.calls import engine_api
from rollup_node.stages.engine.calls.actions import Action
from rollup_node.stages.engine.calls.calls import CommitPayload
from rollup_node.stages.engine.calls.heads import Heads, L2BlockInfo, l2_block_info
from rollup_node.stages.engine.config import EngineConfig
from rollup_node.stages.messages.base import Problem
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.consolidation import sealed_mismatch
from rollup_node.stages.protocol.errors import ResetError, StageError
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.payloads import ExecutionPayload, PayloadAttributes
from rollup_node.stages.protocol.types import Hash, L2BlockRef

RETRY_SECONDS = 1.0
SYNCING_RETRY_SECONDS = 30.0

NOT_ENABLED = "sequencer is not enabled"
ALREADY_RUNNING = "sequencer already running"
NOT_RUNNING = "sequencer not running"


class SequencerPhase(Enum):
    """How far the next block is."""

    IDLE = "idle"
    BUILDING = "building"
    FETCHED = "fetched"
    COMMITTING = "committing"
    SEALED = "sealed"


class SequencerPause(Flag):
    """Why nothing is due though the sequencer is active."""

    NONE = 0
    RESET = auto()
    DERIVED_BUILD = auto()
    SAFE_LAG = auto()
    NETWORK_LEFT = auto()


class BuildJob(msgspec.Struct, frozen=True):
    """A block that the engine is building; `started` is the time of the engine's answer."""

    parent: L2BlockRef
    attributes: PayloadAttributes
    payload_id: bytes
    started: float


class SequencedBlock(Action, frozen=True):
    """Report a block of this sequencer that the engine has validated; `seconds` since its build started."""

    block: L2BlockInfo
    payload: ExecutionPayload
    seconds: float


class BuildDropped(Action, frozen=True):
    """Report that the block in progress was dropped [SEQ5]."""

    reason: str


class Sequencer:
    """All times are Unix seconds. With a conductor it always begins stopped [CND6].

    `conducted`: a conductor decides who sequences, and stores each block before it is published and inserted. `problem`
    is why the last attempt failed, from then until a block is built or none is to be; `failures` counts failed
    attempts."""

    def __init__(self, config: EngineConfig) -> None:
        self.rollup, self.enabled = config.rollup, config.sequencer_enabled
        self.conducted = self.enabled and config.conductor_enabled
        self.active = self.enabled and not (config.sequencer_stopped or config.conductor_enabled)
        self.stopping = False
        self.sealing_duration, self.max_safe_lag = config.sealing_duration, config.sequencer_max_safe_lag
        self.heads: Heads | None = None
        self.phase = SequencerPhase.IDLE
        self.pause = SequencerPause.RESET
        self.started_before = False
        self.due: float | None = None
        self.problem: Problem | None = None
        self.failures = 0
        self.attributes: PayloadAttributes | None = None
        self.building: BuildJob | None = None
        self.sealed: ExecutionPayload | None = None

    # --- admin API -------------------------------------------------------------------------------------------------

    def start_error(self, head: Hash) -> str | None:
        """Return why admin_startSequencer would fail now [RPC57, SEQ26]."""
        if not self.enabled:
            return NOT_ENABLED
        if self.active:
            return ALREADY_RUNNING
        if self.heads is None:
            return f"no prestate, cannot determine if sequencer start at {to_hex(head)} is safe"
        unsafe = self.heads.unsafe
        if unsafe.hash != head:
            return f"block hash does not match: head {engine_api.show_block(unsafe)}, received {to_hex(head)}"
        return None

    def start(self, head: Hash, now: float) -> str | None:
        """admin_startSequencer; the error text if it fails."""
        error = self.start_error(head)
        if error is not None:
            return error
        self.active, self.stopping, self.problem, self.due = True, False, None, now
        return None

    def stop_error(self) -> str | None:
        """Return why admin_stopSequencer would fail now [RPC58]."""
        if not self.enabled:
            return NOT_ENABLED
        return None if self.active else NOT_RUNNING

    def stop(self) -> str | None:
        """admin_stopSequencer; the error text if it fails. A sealed block may be inserted before [SEQ27]."""
        error = self.stop_error()
        if error is not None:
            return error
        self.stopping = True
        self._end_stop()
        return None

    def stop_without_last(self) -> None:
        """End a stop at once: a sealed block is not inserted [SEQ27]."""
        if self.stopping:
            self._stopped()

    def override_leader(self, now: float) -> ExecutionPayload | None:
        """admin_overrideLeader: there is no conductor from now on [CND7]. The block that needs no commit any more."""
        self.conducted = False
        if self.phase not in (SequencerPhase.FETCHED, SequencerPhase.COMMITTING):
            return None
        self.phase, self.due = SequencerPhase.SEALED, now
        return self.sealed

    # --- events ----------------------------------------------------------------------------------------------------

    def on_heads(self, heads: Heads, now: float) -> None:
        """Note that the engine has accepted a forkchoice update with these heads [SEQ1, SEQ13, SEQ20]."""
        last, self.heads = self.heads, heads
        self.pause &= ~SequencerPause.DERIVED_BUILD
        lagging = self.max_safe_lag > 0 and heads.safe.number + self.max_safe_lag <= heads.unsafe.number
        self.pause = self.pause | SequencerPause.SAFE_LAG if lagging else self.pause & ~SequencerPause.SAFE_LAG
        ended = self.rollup.ends_at(heads.unsafe.number)  # [LFT5]
        self.pause = self.pause | SequencerPause.NETWORK_LEFT if ended else self.pause & ~SequencerPause.NETWORK_LEFT
        if lagging or ended:
            self.problem = None
        if self.sealed is not None and self.sealed.parent_hash != heads.unsafe.hash:
            self._drop()
        if self.building is not None and self.building.parent.hash != heads.unsafe.hash:
            self._drop()
        if self.phase is SequencerPhase.IDLE and (
            self.due is None or last is None or last.unsafe.hash != heads.unsafe.hash
        ):
            self.attributes = None
            self.due = max(now, float(heads.unsafe.timestamp))
        self._end_stop()

    def on_reset(self) -> None:
        """There are no heads: nothing is built until a start is confirmed [SEQ9]."""
        self.pause |= SequencerPause.RESET
        self.heads = self.problem = None
        self._drop()
        self._end_stop()

    def on_start(self, heads: Heads, now: float) -> None:
        """Note that a start is confirmed: the first time to act at once, later after one block time [SEQ9]."""
        self.pause &= ~SequencerPause.RESET
        self.on_heads(heads, now)
        if self.started_before:
            self.due = now + self.rollup.block_time
        self.started_before = True

    def on_derived_build(self) -> None:
        """Note that a derived block is built on the tip: pause until the next forkchoice update [SEQ10]."""
        self.pause |= SequencerPause.DERIVED_BUILD
        self._drop()

    # --- actions ---------------------------------------------------------------------------------------------------

    def wait_until(self) -> float | None:
        """Return the time of the next action; None when only an event can lead to one."""
        return None if not self.active or self.pause or self.heads is None else self.due

    def next(self, now: float) -> L2BlockRef | engine_api.EngineCall | None:
        """Return the call that is due now, or the tip whose child needs `set_attributes`, or `retry_later`.

        After a block was inserted nothing is due, until `on_heads` confirms it as the head."""
        due = self.wait_until()
        if due is None or now < due or self.heads is None:
            return None
        if self.sealed is not None:
            return engine_api.NewPayload(self.sealed) if self.phase is SequencerPhase.SEALED else None
        if self.building is not None:
            return engine_api.GetPayload(self.building.payload_id, self.building.attributes.timestamp)
        if self.attributes is None:
            return self.heads.unsafe
        return engine_api.ForkchoiceUpdate(self.heads.forkchoice(), self.attributes)

    def set_attributes(self, parent: L2BlockRef, attributes: PayloadAttributes) -> None:
        """Take the attributes of the block after `parent`; ignored if the tip is another one by now."""
        if self.heads is not None and parent == self.heads.unsafe and self.phase is SequencerPhase.IDLE:
            self.attributes = attributes

    def retry_later(self, error: StageError, now: float) -> None:
        """Make the action due again in 1 s; a build that has started or is sealed is kept [SEQ6, SEQ8]."""
        if self.phase is SequencerPhase.IDLE:
            self.attributes = None
        self._failed(str(error), now + RETRY_SECONDS, Problem.of(error).code)

    def next_commit(self, now: float) -> CommitPayload | None:
        """Return the commit that is due now; answered by `committed` or `commit_failed` [CND5]."""
        due = self.wait_until()
        if self.phase is not SequencerPhase.FETCHED or self.sealed is None or due is None or now < due:
            return None
        self.phase = SequencerPhase.COMMITTING
        return CommitPayload(self.sealed)

    def committed(self, payload: ExecutionPayload, now: float) -> bool:
        """Note that the conductor has the payload; returns whether it is the block to publish and insert."""
        if not self._is_committing(payload):
            return False
        self.phase, self.due = SequencerPhase.SEALED, now
        return True

    def commit_failed(self, payload: ExecutionPayload, failure: engine_api.Unavailable, now: float) -> None:
        """Make the commit of the current block due again in 1 s; the block is kept [SEQ21]."""
        if self._is_committing(payload):
            self.phase = SequencerPhase.FETCHED
            text = f"failed to commit unsafe payload to conductor: {failure.reason}"
            self._failed(text, now + RETRY_SECONDS, failure.code)
            self._end_stop()

    def _is_committing(self, payload: ExecutionPayload) -> bool:
        return self.phase is SequencerPhase.COMMITTING and payload == self.sealed

    def answer(self, call: object, answer: object, now: float) -> SequencedBlock | BuildDropped | None:
        """Take the answer to the call that was due. Raises ResetError and ForkMismatchError."""
        heads = self.heads
        if heads is None:
            return None
        if (
            isinstance(call, engine_api.ForkchoiceUpdate)
            and self.attributes is not None
            and call.attributes == self.attributes
        ):
            return self._started(self.attributes, heads, answer, now)
        if isinstance(call, engine_api.GetPayload) and self.building is not None:
            return self._fetched(self.building, answer, now)
        if isinstance(call, engine_api.NewPayload) and call.payload == self.sealed:
            return self._inserted(call.payload, answer, now)
        return None

    def _started(self, attributes: PayloadAttributes, heads: Heads, answer: object, now: float) -> BuildDropped | None:
        engine_api.raise_for_fork_mismatch(self.rollup, attributes, heads.unsafe.number + 1, answer)
        result = engine_api.build_start_result(answer)
        self.attributes = None
        done = result.status is engine_api.CallStatus.DONE
        if done and isinstance(answer, engine_api.ForkchoiceAnswer) and answer.payload_id is not None:
            self.building = BuildJob(heads.unsafe, attributes, answer.payload_id, now)
            self.phase = SequencerPhase.BUILDING
            self.due = max(now, attributes.timestamp - self.sealing_duration)
            return None
        syncing = result.status is engine_api.CallStatus.SYNCING
        return self._not_done(result, now, SYNCING_RETRY_SECONDS if syncing else RETRY_SECONDS)

    def _fetched(self, building: BuildJob, answer: object, now: float) -> BuildDropped | None:
        if isinstance(answer, engine_api.Denied):
            return self._drop_block(answer.problem.text, now)
        if not isinstance(answer, ExecutionPayload):
            block = f"block {building.parent.number + 1} on {building.parent}"
            lost = f"the engine began to build {block}, and does not return it: "
            if isinstance(answer, engine_api.Unavailable):
                return self._drop_block(lost + answer.reason, now, answer.code)
            return self._drop_block(lost + engine_api.answer_text(answer), now)
        mismatch = sealed_mismatch(self.rollup, building.attributes, building.parent, answer)
        if mismatch is not None:
            return self._drop_block(mismatch.text, now, Code.ENGINE_CONTRADICTS)
        self.sealed, self.due = answer, now
        self.phase = SequencerPhase.FETCHED if self.conducted else SequencerPhase.SEALED
        return None

    def _inserted(self, payload: ExecutionPayload, answer: object, now: float) -> SequencedBlock | BuildDropped | None:
        result = engine_api.insert_result(answer)
        if result.status is not engine_api.CallStatus.DONE:
            return self._not_done(result, now, RETRY_SECONDS)
        seconds = now - self.building.started if self.building is not None else 0.0
        self._drop()
        self.due, self.problem = None, None
        self._end_stop()
        return SequencedBlock(l2_block_info(payload, self.rollup), payload, seconds)

    def _not_done(self, result: engine_api.CallResult, now: float, pause: float) -> BuildDropped | None:
        """Temporary: the same call after a pause. INVALID: the block is dropped. RESET: raised."""
        if result.status is engine_api.CallStatus.RESET:
            raise ResetError(result.text)
        if result.status is engine_api.CallStatus.INVALID:
            return self._drop_block(result.text, now)
        self._failed(result.text, now + pause)
        return None

    def _drop_block(self, reason: str, now: float, code: Code | None = None) -> BuildDropped:
        self._drop()
        self._failed(reason, now + self.rollup.block_time, code)
        self._end_stop()
        return BuildDropped(str(Problem(code, "", reason)))

    def _failed(self, reason: str, due: float, code: Code | None = None) -> None:
        self.problem, self.due = Problem(code, "sequencer", reason), due
        self.failures += 1

    def _drop(self) -> None:
        self.attributes = self.building = self.sealed = None
        self.phase = SequencerPhase.IDLE

    def _end_stop(self) -> None:
        if self.stopping and self.phase not in (SequencerPhase.COMMITTING, SequencerPhase.SEALED):
            self._stopped()

    def _stopped(self) -> None:
        self.active = self.stopping = False
        self.problem = None
        self._drop()
