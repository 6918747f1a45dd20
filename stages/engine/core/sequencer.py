"""When to build which block: the sequencer as a machine that is told the time (node-behaviour 12.1, 12.4, 12.7).

| state       | event                                   | next                                           |
|-------------|-----------------------------------------|------------------------------------------------|
| not enabled | any control call                        | stays, with an error text                      |
| stopped     | start accepted                          | IDLE, due now                                  |
| IDLE        | due, attributes ready, build started    | BUILDING, due at the sealing time              |
| BUILDING    | due, payload fetched                    | SEALED, due now                                |
| SEALED      | payload valid                           | IDLE, due at the time of the new head          |
| any active  | reset, derived build, safe lag          | the same state, paused                         |
| paused      | reset confirmed, forkchoice, lag gone   | goes on                                        |
| any active  | stop                                    | stopped, once a sealed block is in             |
"""

from enum import Enum, Flag, auto

import msgspec

from rollup_node.stages.engine.api.engine_api import (
    Answer,
    Call,
    FetchPayload,
    ForkchoiceAnswer,
    InsertPayload,
    Judged,
    UpdateForkchoice,
    Verdict,
    judge_build_start,
    judge_insert,
)
from rollup_node.stages.engine.api.heads import Heads
from rollup_node.stages.engine.api.l2_block_info import KnownBlock, known_block
from rollup_node.stages.protocol.block_refs import sealed_payload_error
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.errors import ResetError
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.payloads import ExecutionPayload, PayloadAttributes
from rollup_node.stages.protocol.types import Hash, L2BlockRef

RETRY = 1.0
SYNCING_RETRY = 30.0

NOT_ENABLED = "sequencer is not enabled"
ALREADY_RUNNING = "sequencer already running"
NOT_RUNNING = "sequencer not running"


class Phase(Enum):
    """How far the next block is."""

    IDLE = "idle"
    BUILDING = "building"
    SEALED = "sealed"


class Pause(Flag):
    """Why nothing is done though the sequencer is active."""

    NONE = 0
    RESET = auto()
    DERIVED_BUILD = auto()
    SAFE_LAG = auto()


class NeedAttributes(msgspec.Struct, frozen=True):
    """The attributes of the block after `parent` are due; answered by `prepared` or `failed`."""

    parent: L2BlockRef


class Building(msgspec.Struct, frozen=True):
    """A block that the engine is building; `started` is the time of the request."""

    parent: L2BlockRef
    timestamp: int
    payload_id: bytes
    started: float


class Sequenced(msgspec.Struct, frozen=True):
    """A block of ours that the engine has accepted; `seconds` since its building began."""

    block: KnownBlock
    payload: ExecutionPayload
    seconds: float


class SequencerError(msgspec.Struct, frozen=True):
    """The block in hand was given up."""

    reason: str


class Sequencer:
    """All times are Unix seconds; `sealing_duration` in seconds, `max_safe_lag` in L2 blocks, 0 for none."""

    def __init__(
        self,
        rollup: RollupConfig,
        *,
        enabled: bool,
        stopped: bool = False,
        sealing_duration: float = 0.05,
        max_safe_lag: int = 0,
    ) -> None:
        self.rollup = rollup
        self.enabled = enabled
        self.active = enabled and not stopped
        self.stopping = False
        self.sealing_duration = sealing_duration
        self.max_safe_lag = max_safe_lag
        self.heads: Heads | None = None
        self.phase = Phase.IDLE
        self.pause = Pause.RESET
        self.started_before = False
        self.due: float | None = None
        self.trouble: str | None = None
        self.attributes: PayloadAttributes | None = None
        self.building: Building | None = None
        self.sealed: ExecutionPayload | None = None

    # --- control (1.6, 12.7) ---------------------------------------------------------------------------------------

    def start(self, head: Hash, now: float) -> str | None:
        """admin_startSequencer; the error text if it is refused."""
        if not self.enabled:
            return NOT_ENABLED
        if self.active:
            return ALREADY_RUNNING
        if self.heads is None:
            return f"no prestate, cannot determine if sequencer start at {to_hex(head)} is safe"
        unsafe = self.heads.unsafe
        if unsafe.hash != head:
            return f"block hash does not match: head {to_hex(unsafe.hash)}:{unsafe.number}, received {to_hex(head)}"
        self.active, self.stopping, self.trouble = True, False, None
        self._drop()
        self.due = now
        return None

    def stop(self) -> str | None:
        """admin_stopSequencer; the error text if it is refused. `active` falls once a sealed block is in."""
        if not self.enabled:
            return NOT_ENABLED
        if not self.active:
            return NOT_RUNNING
        self.stopping = True
        self._end_stop()
        return None

    # --- what happens around it ------------------------------------------------------------------------------------

    def on_heads(self, heads: Heads, now: float) -> None:
        """The engine has taken a forkchoice with these heads."""
        last, self.heads = self.heads, heads
        self.pause &= ~Pause.DERIVED_BUILD
        lagging = self.max_safe_lag > 0 and heads.safe.number + self.max_safe_lag <= heads.unsafe.number
        self.pause = self.pause | Pause.SAFE_LAG if lagging else self.pause & ~Pause.SAFE_LAG
        if self.sealed is not None and self.sealed.parent_hash != heads.unsafe.hash:
            self._drop()
        if self.building is not None and self.building.parent.hash != heads.unsafe.hash:
            self._drop()
        if self.phase is Phase.IDLE and (self.due is None or last is None or last.unsafe.hash != heads.unsafe.hash):
            self.attributes = None
            self.due = max(now, float(heads.unsafe.timestamp))
        self._end_stop()

    def on_reset(self) -> None:
        """The heads are in doubt: nothing is built until they are confirmed."""
        self.pause |= Pause.RESET
        self.heads = None
        self._drop()
        self._end_stop()

    def on_start(self, heads: Heads, now: float) -> None:
        """A start was found. After the first one of this process work begins at once, later after one block time."""
        self.pause &= ~Pause.RESET
        self.on_heads(heads, now)
        if self.started_before:
            self.due = now + self.rollup.block_time
        self.started_before = True

    def on_derived_build(self) -> None:
        """Derivation builds on the tip: pause until the next forkchoice update."""
        self.pause |= Pause.DERIVED_BUILD
        self._drop()

    # --- work ------------------------------------------------------------------------------------------------------

    def wait_until(self) -> float | None:
        """The time of the next action; None when there is none to wait for."""
        return None if not self.active or self.pause or self.heads is None else self.due

    def next(self, now: float) -> NeedAttributes | Call | None:
        """What is due now. After a block was accepted nothing is, until `on_heads` tells that the engine has it."""
        due = self.wait_until()
        if due is None or now < due or self.heads is None:
            return None
        if self.sealed is not None:
            return InsertPayload(self.sealed)
        if self.building is not None:
            return FetchPayload(self.building.payload_id, self.building.timestamp)
        if self.attributes is None:
            return NeedAttributes(self.heads.unsafe)
        return UpdateForkchoice(self.heads.forkchoice(), self.attributes)

    def prepared(self, need: NeedAttributes, attributes: PayloadAttributes) -> None:
        """The attributes asked for; ignored if the tip is another one by now."""
        if self.heads is not None and need.parent == self.heads.unsafe and self.phase is Phase.IDLE:
            self.attributes = attributes

    def failed(self, now: float) -> None:
        """The action could not be tried (no origin, endpoint away): again in a second, with the same block."""
        if self.phase is Phase.IDLE:
            self.attributes = None
        self.due = now + RETRY

    def answer(self, call: Call, answer: Answer, now: float) -> Sequenced | SequencerError | None:
        """Takes the engine's answer to the call that was due; what came of it."""
        heads = self.heads
        if heads is None:
            return None
        if isinstance(call, UpdateForkchoice) and self.attributes is not None and call.attributes == self.attributes:
            return self._started(self.attributes, heads, answer, now)
        if isinstance(call, FetchPayload) and self.building is not None:
            return self._fetched(self.building, answer, now)
        if isinstance(call, InsertPayload) and call.payload == self.sealed:
            return self._inserted(call.payload, answer, now)
        return None

    def _started(
        self, attributes: PayloadAttributes, heads: Heads, answer: Answer, now: float
    ) -> SequencerError | None:
        judged = judge_build_start(answer)
        self.attributes = None
        self.trouble = None
        if judged.verdict is Verdict.DONE and isinstance(answer, ForkchoiceAnswer) and answer.payload_id is not None:
            self.building = Building(heads.unsafe, attributes.timestamp, answer.payload_id, now)
            self.phase = Phase.BUILDING
            self.due = max(now, attributes.timestamp - self.sealing_duration)
            return None
        pause = SYNCING_RETRY if judged.verdict is Verdict.SYNCING else RETRY
        return self._refused(judged, now, pause)

    def _fetched(self, building: Building, answer: Answer, now: float) -> SequencerError | None:
        if not isinstance(answer, ExecutionPayload):
            return self._give_up("the engine has lost the block it was building", now)
        problem = sealed_payload_error(self.rollup, answer)
        if problem is None and answer.parent_hash != building.parent.hash:
            problem = "it has another parent than was asked for"
        if problem is not None:
            return self._give_up(f"the engine sealed a payload that cannot be: {problem}", now)
        self.sealed, self.phase, self.due = answer, Phase.SEALED, now
        return None

    def _inserted(self, payload: ExecutionPayload, answer: Answer, now: float) -> Sequenced | SequencerError | None:
        judged = judge_insert(answer)
        if judged.verdict is not Verdict.DONE:
            return self._refused(judged, now, RETRY)
        seconds = now - self.building.started if self.building is not None else 0.0
        self._drop()
        self.due, self.trouble = None, None
        self._end_stop()
        return Sequenced(known_block(payload, self.rollup), payload, seconds)

    def _refused(self, judged: Judged, now: float, pause: float) -> SequencerError | None:
        """Temporary: the same again after a pause; reset: raised; otherwise the block is given up."""
        if judged.verdict is Verdict.RESET:
            raise ResetError(judged.text)
        if judged.verdict is Verdict.INVALID:
            return self._give_up(judged.text, now)
        self.trouble = judged.text
        self.due = now + pause
        return None

    def _give_up(self, reason: str, now: float) -> SequencerError:
        self._drop()
        self.trouble = reason
        self.due = now + self.rollup.block_time
        self._end_stop()
        return SequencerError(reason)

    def _drop(self) -> None:
        self.attributes = self.building = self.sealed = None
        self.phase = Phase.IDLE

    def _end_stop(self) -> None:
        if self.stopping and self.sealed is None:
            self.active = self.stopping = False
            self._drop()
