"""The sequencer's admin calls, and what the conductor has to say in them [CND4 to CND7, SEQ26, SEQ27]. Its two calls
have lanes of their own, so that a slow conductor delays neither heads nor derivation:

| lane   | due                                                                     | then                              |
|--------|-------------------------------------------------------------------------|-----------------------------------|
| commit | a block is fetched; 1 s after a commit failed                           | the block is published            |
| leader | admin_startSequencer                                                    | it starts, or an error is sent    |
| leader | admin_stopSequencer waits for the engine; again every second            | it waits on, or stops at once     |
"""

from rollup_node.ipc.wire.process_id import ProcessId
from rollup_node.stages.engine.api.conductor_api import CommitPayload, Committed, GetLeader, Leadership
from rollup_node.stages.engine.api.engine_api import Unavailable
from rollup_node.stages.engine.core import actions as act
from rollup_node.stages.engine.core.calls import CoreAnswer, Instant, PendingCall, Work
from rollup_node.stages.engine.core.head_calls import Due
from rollup_node.stages.engine.core.requests import MAX_ADMIN_REQUESTS, AdminKey
from rollup_node.stages.engine.core.state import CoreState
from rollup_node.stages.engine.machines.sequencer import NOT_ENABLED, SequencerPhase
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


class SequencerAdmin:
    """`ask_at` is the monotonic time from which a waiting stop asks for the leader again."""

    def __init__(self, state: CoreState) -> None:
        self._state = state
        self._sequencer = state.production.sequencer
        self._waiting: dict[AdminKey, Hash] = {}
        self._asked: dict[AdminKey, Hash] = {}
        self.ask_at = 0.0

    def request(self, peer: ProcessId, message: SequencerRequest, now: Instant) -> None:
        """Takes an admin call, perhaps a repeated one."""
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
        state, sequencer = self._state, self._sequencer
        error = sequencer.start(head, now.unix)
        heads = state.controller.heads
        if error is None and heads is not None and sequencer.heads is not None:
            # A stop just before may not be answered yet. It is over, and would wait for the next one from here on.
            state.answer_stops()
            state.do(act.SequencerStarted(heads.unsafe))
            state.publish(now)
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
            state.publish(now)
        state.admin.add_stop(key)

    def _override(self, key: AdminKey, now: Instant) -> None:
        state, sequencer = self._state, self._sequencer
        if not sequencer.enabled:
            self._respond(key, NOT_ENABLED)
            return
        if sequencer.conducted:
            state.do(act.LeaderOverridden())
            released = sequencer.override_leader(now.unix)
            if released is not None:
                state.publish_block(released)
            starts = {**self._asked, **self._waiting}
            self._asked, self._waiting = {}, {}
            for each, head in starts.items():
                self._start(each, head, now)
        self._respond(key, None)

    def _respond(self, key: AdminKey, error: str | None) -> None:
        peer, number = key
        self._state.do(act.SendToRpc(peer, ControlResponse(number, error, None)))

    # --- the conductor ---------------------------------------------------------------------------------------------

    @property
    def _stop_waits(self) -> bool:
        """Whether a stop waits for the engine, as it only does while this node is the leader [SEQ27]."""
        committing = self._sequencer.phase is SequencerPhase.COMMITTING
        return self._sequencer.conducted and bool(self._state.admin.stops) and not committing

    def leader_due(self, now: Instant) -> Due:
        """The call that asks for the leader; its answer counts for the starts that wait now."""
        stop_waits = self._stop_waits and now.monotonic >= self.ask_at
        if not self._waiting and not stop_waits:
            return None
        self._asked, self._waiting = self._waiting, {}
        if stop_waits:
            self.ask_at = now.monotonic + ASK_AGAIN_SECONDS
        return Work.LEADER, GetLeader()

    def take_leader(self, answer: CoreAnswer, now: Instant) -> None:
        """Takes the answer to `leader_due`."""
        asked, self._asked = self._asked, {}
        if isinstance(answer, Leadership) and answer.is_leader:
            for key, head in asked.items():
                self._start(key, head, now)
            return
        failure = answer.text if isinstance(answer, Unavailable) else None
        error = NOT_LEADER if failure is None else f"sequencer leader check failed: {failure}"
        for key in asked:
            self._respond(key, error)
        if self._stop_waits:
            self._state.do(act.StopWaitSkipped(failure or "this node is not the leader"))
            self._sequencer.stop_without_last()
            self._state.answer_stops()
            self._state.publish(now)

    def commit_due(self, now: Instant) -> Due:
        """The commit of the block that is fetched."""
        call = self._sequencer.next_commit(now.unix)
        return None if call is None else (Work.COMMIT, call)

    def take_commit(self, pending: PendingCall, answer: CoreAnswer, now: Instant) -> None:
        """Takes the answer to `commit_due`: the block may be published and inserted, or is committed again later."""
        state, call = self._state, pending.call
        if not isinstance(call, CommitPayload):
            return
        if not isinstance(answer, Committed):
            failure = answer if isinstance(answer, Unavailable) else Unavailable("it gave no answer to this")
            self._sequencer.commit_failed(call.payload, failure, now.unix)
            state.show_sequencer_problem()
        elif self._sequencer.committed(call.payload, now.unix):
            state.publish_block(call.payload)
