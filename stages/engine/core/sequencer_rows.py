"""The rows of the sequencer and its admin calls [CND4 to CND7, SEQ26, SEQ27].

The two calls of the conductor have lanes of their own, so that a slow conductor delays neither heads nor derivation:

| lane   | due                                                                     | then                              |
|--------|-------------------------------------------------------------------------|-----------------------------------|
| commit | a block is fetched; 1 s after a commit failed                           | the block is published            |
| leader | admin_startSequencer                                                    | it starts, or an error is sent    |
| leader | admin_stopSequencer waits for the engine; again every second            | it waits on, or stops at once     |
"""

from typing import TYPE_CHECKING

import msgspec

from rollup_node.ipc.wire.process_id import ProcessId
from rollup_node.stages.engine.calls import actions
from rollup_node.stages.engine.calls.calls import (
    CallPurpose,
    CommitPayload,
    CoreAnswer,
    CoreCall,
    GetLeader,
    Instant,
    PendingCall,
)
from rollup_node.stages.engine.calls.engine_api import Denied, GetPayload, Unavailable
from rollup_node.stages.engine.calls.heads import Heads
from rollup_node.stages.engine.core.rows import HeadRow, Row
from rollup_node.stages.engine.sequencer.block_production import BlockProduction
from rollup_node.stages.engine.sequencer.sequencer import (
    NOT_ENABLED,
    RETRY_SECONDS,
    BuildDropped,
    SequencedBlock,
    Sequencer,
    SequencerPhase,
)
from rollup_node.stages.messages.base import Problem
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.control import (
    OverrideLeaderRequest,
    StartSequencerRequest,
    StopSequencerRequest,
)
from rollup_node.stages.protocol.errors import TemporaryError
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.types import ZERO_HASH, Hash

if TYPE_CHECKING:
    from rollup_node.stages.engine.core.state import CoreState

CONDITION = "sequencer"
ASK_AGAIN_SECONDS = 1.0
NOT_LEADER = "sequencer is not the leader, aborting"

MAX_ADMIN_REQUESTS = 64
AdminKey = tuple[ProcessId, int]
"""The requesting process and the id of its request."""

SequencerRequest = StartSequencerRequest | StopSequencerRequest | OverrideLeaderRequest


class SequencerRow(HeadRow):
    """The calls for the block that the sequencer builds, by its schedule; a forkchoice update first.

    It keeps the sequencer with the admin calls that wait for it. `last_announced` are the heads known last."""

    purpose = CallPurpose.SEQUENCER

    def __init__(self, core: "CoreState") -> None:
        super().__init__(core)
        self.production = BlockProduction(core.config)
        self.sequencer = self.production.sequencer
        self.stops: list[AdminKey] = []
        self.resets: list[AdminKey] = []
        self.last_announced: Heads | None = None
        self.last_sequenced: Hash | None = None
        self._shown: tuple[Problem | None, int] = (None, 0)

    def due(self, now: Instant) -> CoreCall | None:
        core, heads = self._core, self._core.confirmed_heads
        if heads is None or not self.sequencer.enabled or core.waits(self.purpose, now):
            return None
        if core.holds_for_sync(now):
            return None
        wanted = self.production.wanted_l1_blocks(heads)
        if wanted is not None:
            core.do(wanted)
        if core.attributes.building or core.unsafe.lost.pending:
            return None
        call = self.production.next(core.controller.forkchoice_due(), now.unix)
        self.show_problem()
        core.recover(self.purpose)
        return call

    def take(self, pending: PendingCall, answer: CoreAnswer, now: Instant) -> None:
        core, fetched = self._core, isinstance(pending.call, GetPayload)
        if fetched:
            core.do(actions.Observe("sequencer_sealing_seconds", now.monotonic - pending.since))
        if isinstance(answer, ExecutionPayload) and fetched and core.verification.denies(answer.block_hash):
            answer = Denied(answer.block_number)
        event = self.production.answer(pending.call, answer, now.unix)
        sequencer = self.sequencer
        if fetched and sequencer.sealed is not None and not sequencer.conducted:
            self.publish_block(sequencer.sealed)
        if isinstance(event, BuildDropped):
            core.do(event)
        elif isinstance(event, SequencedBlock):
            core.controller.advance(event.block.ref)
            self.last_sequenced = event.block.ref.hash
            core.finishing = self
            core.do(event)
            core.publish(now)
        self.show_problem()

    def failed(self, call: CoreCall | None, error: TemporaryError, now: Instant) -> float | None:
        """Try again by the sequencer's own schedule [SEQ6]."""
        self.sequencer.retry_later(error, now.unix)
        self.show_problem()
        return RETRY_SECONDS

    # --- what the rows share ---------------------------------------------------------------------------------------

    def publish_block(self, payload: ExecutionPayload) -> None:
        """Have the block that the sequencer sealed on the unsafe head signed and gossiped.

        The chain up to some number follows from L1, or from what a follow source has proven."""
        core, heads = self._core, self.sequencer.heads
        if heads is not None and heads.unsafe.hash == payload.parent_hash:
            derived = core.follow.proven if core.follow.enabled else heads.pending_safe.number
            core.do(actions.PublishBlock(payload, heads.unsafe, derived))

    def show_problem(self) -> None:
        """Report why the sequencer cannot build: each failed attempt, and when that ends."""
        core, (last, failures) = self._core, self._shown
        problem = self.sequencer.problem
        self._shown = problem, self.sequencer.failures
        if problem is not None and self.sequencer.failures != failures:
            text = "sequencer cannot build a block"
            reason = str(msgspec.structs.replace(problem, subject=""))
            core.do(actions.Lasts(CONDITION, Code.SEQUENCER_WAITS, text, {"reason": reason}))
        if problem != last:
            core.do(actions.ShowProblem("sequencer", problem))

    def add_reset(self, key: AdminKey) -> bool:
        """Keep a request for a reset; False if it was made before, or there is no room."""
        if key in self.resets or len(self.resets) >= MAX_ADMIN_REQUESTS:
            return False
        self.resets.append(key)
        return True

    @property
    def last_block_waits(self) -> bool:
        """Whether the block that was sequenced last is the tip, and not the engine's head yet."""
        heads, accepted = self._core.controller.heads, self._core.controller.accepted
        if heads is None or heads.unsafe.hash != self.last_sequenced:
            return False
        return accepted is None or accepted.head != heads.unsafe.hash

    def finish_stops(self, now: Instant) -> None:
        """Answer admin_stopSequencer once the engine has the last block as its head [SEQ27, SEQ42]."""
        waits = self.sequencer.active or self.last_block_waits or self._core.unsafe.lost.pending
        if self.stops and not waits:
            self.answer_stops()
            self._core.publish(now)

    def answer_stops(self) -> None:
        """Answer the stops that wait with the last head that was known, or the zero hash."""
        core, heads = self._core, self.sequencer.heads or self.last_announced
        head = None if heads is None else heads.unsafe
        stops, self.stops = self.stops, []
        if stops:
            core.do(actions.Ends(CONDITION, "the sequencer is to build no blocks any more"))
            core.write("info", "sequencer stopped", head=head)
        for peer, number in stops:
            core.respond(peer, number, None, ZERO_HASH if head is None else head.hash)


class CommitRow(Row):
    """The commit of the block that is fetched: it is published and inserted then, or committed again later."""

    takes_silence = True
    purpose = CallPurpose.COMMIT

    def due(self, now: Instant) -> CoreCall | None:
        return self._core.sequencer.sequencer.next_commit(now.unix)

    def answer(self, pending: PendingCall, answer: CoreAnswer, now: Instant) -> None:
        row, call = self._core.sequencer, pending.call
        if not isinstance(call, CommitPayload):
            return
        if answer is not True:
            failure = answer if isinstance(answer, Unavailable) else Unavailable("it gave no answer to this")
            row.sequencer.commit_failed(call.payload, failure, now.unix)
            row.show_problem()
        elif row.sequencer.committed(call.payload, now.unix):
            row.publish_block(call.payload)


class LeaderRow(Row):
    """The sequencer's admin calls; `ask_at` is when a waiting stop asks for the leader again."""

    outlives_resets = takes_silence = True
    purpose = CallPurpose.LEADER

    def __init__(self, core: "CoreState") -> None:
        super().__init__(core)
        self._waiting: dict[AdminKey, Hash] = {}
        self._asked: dict[AdminKey, Hash] = {}
        self.ask_at = 0.0

    @property
    def _sequencer(self) -> Sequencer:
        return self._core.sequencer.sequencer

    def request(self, peer: ProcessId, message: SequencerRequest, now: Instant) -> None:
        """Take an admin call, perhaps a repeated one."""
        key = (peer, message.id)
        match message:
            case StartSequencerRequest(head=head):
                self._request_start(key, head, now)
            case StopSequencerRequest():
                self._stop(key, now)
            case OverrideLeaderRequest():
                self._override(key, now)

    def _request_start(self, key: AdminKey, head: Hash, now: Instant) -> None:
        if not self._sequencer.conducted:
            self._start(key, head, now)
        elif key not in self._asked and len(self._waiting) < MAX_ADMIN_REQUESTS:
            self._waiting.setdefault(key, head)

    def _start(self, key: AdminKey, head: Hash, now: Instant) -> None:
        core, row, sequencer = self._core, self._core.sequencer, self._sequencer
        error = sequencer.start(head, now.unix)
        heads = core.controller.heads
        if error is None and heads is not None and sequencer.heads is not None:
            # A stop just before may not be answered yet. It is over, and would wait for the next one from here on.
            row.answer_stops()
            core.write("info", "sequencer started", head=heads.unsafe)
            core.publish(now)
        self._core.respond(*key, error)

    def _stop(self, key: AdminKey, now: Instant) -> None:
        row = self._core.sequencer
        if key in row.stops:
            return
        if not self._sequencer.stopping:
            error = self._sequencer.stop()
            if error is not None:
                self._core.respond(*key, error)
                return
            self.ask_at = 0.0
            self._core.publish(now)
        if len(row.stops) < MAX_ADMIN_REQUESTS:
            row.stops.append(key)

    def _override(self, key: AdminKey, now: Instant) -> None:
        row, sequencer = self._core.sequencer, self._sequencer
        if not sequencer.enabled:
            self._core.respond(*key, NOT_ENABLED)
            return
        if sequencer.conducted:
            text = "leader overridden, blocks are not committed to the conductor"
            self._core.write("warn", text, Code.SEQUENCER_ADMIN)
            released = sequencer.override_leader(now.unix)
            if released is not None:
                row.publish_block(released)
            starts = {**self._asked, **self._waiting}
            self._asked, self._waiting = {}, {}
            for start, head in starts.items():
                self._start(start, head, now)
        self._core.respond(*key, None)

    @property
    def _stop_waits(self) -> bool:
        """Whether a stop waits for the engine, as it only does while this node is the leader [SEQ27]."""
        committing = self._sequencer.phase is SequencerPhase.COMMITTING
        return self._sequencer.conducted and bool(self._core.sequencer.stops) and not committing

    def due(self, now: Instant) -> CoreCall | None:
        stop_waits = self._stop_waits and now.monotonic >= self.ask_at
        if not self._waiting and not stop_waits:
            return None
        self._asked, self._waiting = self._waiting, {}
        if stop_waits:
            self.ask_at = now.monotonic + ASK_AGAIN_SECONDS
        return GetLeader()

    def answer(self, pending: PendingCall, answer: CoreAnswer, now: Instant) -> None:
        """Start the sequencer, or send errors; a stop that waits goes on at once unless this node leads."""
        asked, self._asked = self._asked, {}
        if answer is True:
            for key, head in asked.items():
                self._start(key, head, now)
            return
        failure = answer.text if isinstance(answer, Unavailable) else None
        error = NOT_LEADER if failure is None else f"sequencer leader check failed: {failure}"
        for key in asked:
            self._core.respond(*key, error)
        if self._stop_waits:
            reason = failure or "this node is not the leader"
            self._core.write("warn", "stopping without the last block", Code.SEQUENCER_ADMIN, reason=reason)
            self._sequencer.stop_without_last()
            self._core.sequencer.answer_stops()
            self._core.publish(now)
