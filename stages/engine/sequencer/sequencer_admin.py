"""The sequencer's admin calls, and what the conductor has to say in them [CND4 to CND7, SEQ26, SEQ27]. Its two calls
have lanes of their own, so that a slow conductor delays neither heads nor derivation:

| lane   | due                                                                     | then                              |
|--------|-------------------------------------------------------------------------|-----------------------------------|
| commit | a block is fetched; 1 s after a commit failed                           | the block is published            |
| leader | admin_startSequencer                                                    | it starts, or an error is sent    |
| leader | admin_stopSequencer waits for the engine; again every second            | it waits on, or stops at once     |
"""

from rollup_node.ipc.wire.process_id import ProcessId
from rollup_node.stages.engine.calls.actions import SendToRpc
from rollup_node.stages.engine.calls.calls import CallPurpose, CoreAnswer, CoreCall, Instant, PendingCall
from rollup_node.stages.engine.calls.conductor_api import GetLeader, Leadership
from rollup_node.stages.engine.calls.engine_api import Unavailable
from rollup_node.stages.engine.calls.requests import MAX_ADMIN_REQUESTS, AdminKey
from rollup_node.stages.engine.heads.context import CoreContext, CoreRow
from rollup_node.stages.engine.sequencer.sequencer import NOT_ENABLED, SequencerPhase
from rollup_node.stages.engine.sequencer.sequencer_rows import Sequencing
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.control import (
    ControlResponse,
    OverrideLeaderRequest,
    StartSequencerRequest,
    StopSequencerRequest,
)
from rollup_node.stages.protocol.types import Hash

ASK_AGAIN_SECONDS = 1.0
NOT_LEADER = "sequencer is not the leader, aborting"

SequencerRequest = StartSequencerRequest | StopSequencerRequest | OverrideLeaderRequest


class LeaderRow(CoreRow):
    """The admin calls of the sequencer, and the question for the leader. `ask_at` is the monotonic time from which a
    waiting stop asks for the leader again."""

    outlives_resets = True
    purpose = CallPurpose.LEADER

    def __init__(self, core: CoreContext, state: Sequencing) -> None:
        super().__init__(core)
        self._state, self._sequencer = state, state.sequencer
        self._waiting: dict[AdminKey, Hash] = {}
        self._asked: dict[AdminKey, Hash] = {}
        self.ask_at = 0.0

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

    # --- start, stop, override -------------------------------------------------------------------------------------

    def _request_start(self, key: AdminKey, head: Hash, now: Instant) -> None:
        if not self._sequencer.conducted:
            self._start(key, head, now)
        elif key not in self._asked and len(self._waiting) < MAX_ADMIN_REQUESTS:
            self._waiting.setdefault(key, head)

    def _start(self, key: AdminKey, head: Hash, now: Instant) -> None:
        core, state, sequencer = self._core, self._state, self._sequencer
        error = sequencer.start(head, now.unix)
        heads = core.controller.heads
        if error is None and heads is not None and sequencer.heads is not None:
            # A stop just before may not be answered yet. It is over, and would wait for the next one from here on.
            state.answer_stops()
            core.write("info", "sequencer started", head=heads.unsafe)
            core.publish(now)
        self._respond(key, error)

    def _stop(self, key: AdminKey, now: Instant) -> None:
        state = self._state
        if key in state.admin.stops:
            return
        if not self._sequencer.stopping:
            error = self._sequencer.stop()
            if error is not None:
                self._respond(key, error)
                return
            self.ask_at = 0.0
            self._core.publish(now)
        state.admin.add_stop(key)

    def _override(self, key: AdminKey, now: Instant) -> None:
        state, sequencer = self._state, self._sequencer
        if not sequencer.enabled:
            self._respond(key, NOT_ENABLED)
            return
        if sequencer.conducted:
            text = "leader overridden, blocks are not committed to the conductor"
            self._core.write("warn", text, Code.SEQUENCER_ADMIN)
            released = sequencer.override_leader(now.unix)
            if released is not None:
                state.publish_block(released)
            starts = {**self._asked, **self._waiting}
            self._asked, self._waiting = {}, {}
            for start, head in starts.items():
                self._start(start, head, now)
        self._respond(key, None)

    def _respond(self, key: AdminKey, error: str | None) -> None:
        peer, number = key
        self._core.do(SendToRpc(peer, ControlResponse(number, error, None)))

    # --- the conductor ---------------------------------------------------------------------------------------------

    @property
    def _stop_waits(self) -> bool:
        """Whether a stop waits for the engine, as it only does while this node is the leader [SEQ27]."""
        committing = self._sequencer.phase is SequencerPhase.COMMITTING
        return self._sequencer.conducted and bool(self._state.admin.stops) and not committing

    def due(self, now: Instant) -> CoreCall | None:
        """Return the question for the leader; its answer counts for the starts that wait now."""
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
        if isinstance(answer, Leadership) and answer.is_leader:
            for key, head in asked.items():
                self._start(key, head, now)
            return
        failure = answer.reason if isinstance(answer, Unavailable) else None
        error = NOT_LEADER if failure is None else f"sequencer leader check failed: {failure}"
        for key in asked:
            self._respond(key, error)
        if self._stop_waits:
            reason = failure or "this node is not the leader"
            self._core.write("warn", "stopping without the last block", Code.SEQUENCER_ADMIN, reason=reason)
            self._sequencer.stop_without_last()
            self._state.answer_stops()
            self._core.publish(now)

    def unavailable(self, pending: PendingCall, answer: Unavailable, now: Instant) -> None:
        """Take it as an answer: the conductor does not confirm that this node leads."""
        self.answer(pending, answer, now)
