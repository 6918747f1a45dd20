"""The calls that can move heads: which one is due, and what follows from its answer. One of them is open at a time."""

from collections.abc import Callable

from rollup_node.stages.engine.api.engine_api import (
    ForkchoiceUpdate,
    GetBlockRef,
    GetPayload,
    NewPayload,
    is_syncing,
)
from rollup_node.stages.engine.core import actions as act
from rollup_node.stages.engine.core.build_api_calls import BuildApiCalls
from rollup_node.stages.engine.core.calls import CoreAnswer, CoreCall, Instant, PendingCall, Work
from rollup_node.stages.engine.core.el_sync_calls import ELSyncCalls
from rollup_node.stages.engine.core.follow_calls import FollowCalls
from rollup_node.stages.engine.core.gap_calls import GapCalls
from rollup_node.stages.engine.core.state import CoreState
from rollup_node.stages.engine.core.supervisor_calls import SupervisorCalls
from rollup_node.stages.engine.machines.sequencer import RETRY_SECONDS, BuildDropped, SequencedBlock
from rollup_node.stages.engine.machines.unsafe_queue import DroppedUnsafeBlock
from rollup_node.stages.protocol.errors import ResetError, TemporaryError
from rollup_node.stages.protocol.types import L2BlockRef

Due = tuple[Work, CoreCall] | None


class HeadCalls:
    """`priorities` are the rows of the table in `engine_core`, each with the work that its errors concern."""

    def __init__(self, state: CoreState) -> None:
        self._state = state
        self.el_sync = ELSyncCalls(state)
        self.follow = FollowCalls(state)
        self.gap = GapCalls(state)
        self.build_api = BuildApiCalls(state)
        self.supervisor = SupervisorCalls(state)
        self.priorities: tuple[tuple[Work, Callable[[Instant], Due]], ...] = (
            (Work.EL_SYNC, self.el_sync.head_call),
            (Work.FORKCHOICE, self._doubt),
            (Work.UNSAFE_GAP, self.gap.confirm_due),
            (Work.FORKCHOICE, self._finish),
            (Work.FORKCHOICE, self._forkchoice),
            (Work.FOLLOW_HEAD, self.follow.head_call),
            (Work.ATTRIBUTES, self._attributes),
            (Work.UNSAFE_BLOCK, self._unsafe_block),
            (Work.UNSAFE_GAP, self.gap.due),
            (Work.REPLACEMENT, self.supervisor.due),
            (Work.SEQUENCER, self._sequencer),
            (Work.BUILD_API, self.build_api.due),
            (Work.ATTRIBUTES, self._ahead),
        )

    def move_heads(self, now: Instant) -> None:
        """The moves that need no call. The present job ends before derivation restarts, unless it waits before an
        activation block [UPG24] or fails before its block is inserted: the safe head is that block then, and has to be
        recorded [SDB2]."""
        state = self._state
        waits = state.attributes.hold is not None or self._waits(Work.ATTRIBUTES, now)
        free = state.attributes.job is None or (waits and not state.attributes.inserted)
        if state.restart is not None and free:
            state.apply_restart(state.restart, now)
        state.finalize_due(now)
        self.supervisor.promote_due(now)
        self.supervisor.finalize_due(now)
        self.follow.import_heads(now)
        self.follow.watch_sync(now)

    # --- what is due -----------------------------------------------------------------------------------------------

    def _doubt(self, now: Instant) -> Due:
        """Whether the engine still has the tip, on behalf of the work whose update it answered with SYNCING."""
        if self._state.doubted is None:
            return None
        work, tip = self._state.doubted
        return work, GetBlockRef(tip.hash)

    def _finish(self, now: Instant) -> Due:
        """The update that makes an inserted block the head, or confirms the heads before a held answer is
        processed; on behalf of the work that needs it."""
        state = self._state
        work = state.held[0].work if state.held is not None else state.finishing
        if work is None:
            return None
        call = state.controller.forkchoice_due()
        if call is None:
            state.finishing = state.held = None
            return None
        return work, call

    def _forkchoice(self, now: Instant) -> Due:
        """A pending update, at once for a start and for a displaced tip. Not while a derived block is being built: the
        engine's head is the parent of that block then."""
        state = self._state
        if state.attributes.building or self._waits(Work.FORKCHOICE, now):
            return None
        at_once = state.unconfirmed is not None or state.controller.restoring_backup
        if not at_once and now.monotonic < state.forkchoice_at:
            return None
        call = state.controller.forkchoice_due()
        return None if call is None else (Work.FORKCHOICE, call)

    def _attributes(self, now: Instant) -> Due:
        state = self._state
        if self._waits(Work.ATTRIBUTES, now):
            return None
        if self._takes_attributes:
            processed = state.attributes.begin()
            if processed is not None:
                state.send_result(processed)
            if self._may_join:
                state.attributes.join()
        return self._attributes_call(now)

    def _ahead(self, now: Instant) -> Due:
        """The attributes that were derived ahead: whatever else is due comes first, as it would between two messages
        of derivation."""
        if not self._takes_attributes or self._state.safe_heads.pending or self._waits(Work.ATTRIBUTES, now):
            return None
        self._state.attributes.begin_ahead()
        return self._attributes_call(now)

    @property
    def _takes_attributes(self) -> bool:
        return self._state.confirmed_heads is not None and not self._state.session.restart_wanted

    @property
    def _may_join(self) -> bool:
        """Whether the next block of a run may be started with the update to the last one: nothing else waits for the
        time between them, and the safe head needs no record before it [SDB13]."""
        state = self._state
        waits = state.production.sequencer.active or state.interop.enabled or self.build_api.waiting
        return not waits and not state.safe_heads.enabled

    def _attributes_call(self, now: Instant) -> Due:
        state = self._state
        if (processed := state.attributes.check()) is not None:
            state.report(processed, now)
            state.publish(now)
        call = state.attributes.next()
        if call is None:
            return None
        if state.attributes.building:
            state.production.sequencer.on_derived_build()
        return Work.ATTRIBUTES, call

    def _unsafe_block(self, now: Instant) -> Due:
        state, heads = self._state, self._state.confirmed_heads
        if heads is None or state.attributes.building or state.controller.restoring_backup:
            return None
        # A block of our own chain would end the engine's sync to another one.
        if state.follow.holds(now.monotonic) or self._waits(Work.UNSAFE_BLOCK, now):
            return None
        while isinstance(due := state.unsafe.next(heads), DroppedUnsafeBlock):
            state.drop_unsafe(due)
        state.show_queue()
        if due is None:
            state.recover(Work.UNSAFE_BLOCK.task)
            return None
        return Work.UNSAFE_BLOCK, due

    def _sequencer(self, now: Instant) -> Due:
        state, heads = self._state, self._state.confirmed_heads
        if heads is None or not state.production.sequencer.enabled or self._waits(Work.SEQUENCER, now):
            return None
        if state.follow.holds(now.monotonic):
            return None
        wanted = state.production.wanted_l1_blocks(heads)
        if wanted is not None:
            state.do(act.RequestL1Blocks(wanted))
        if state.attributes.building or state.lost.pending:
            return None
        call = state.production.next(state.controller.forkchoice_due(), now.unix)
        state.show_sequencer_problem()
        state.recover(Work.SEQUENCER.task)
        return None if call is None else (Work.SEQUENCER, call)

    def _waits(self, work: Work, now: Instant) -> bool:
        return self._state.backoff.is_waiting(work.task, now.monotonic)

    # --- answers ---------------------------------------------------------------------------------------------------

    def answer(self, pending: PendingCall, answer: CoreAnswer, now: Instant) -> None:
        """Takes the answer to a call. Raises TemporaryError when it is to be tried again, ResetError when a new start
        is needed."""
        call = pending.call
        if self._state.doubted is not None:
            self._answer_doubt(self._state.doubted[1], answer)
        elif pending.work is Work.EL_SYNC:
            self.el_sync.answer(pending, answer, now)
        elif pending.work is Work.FOLLOW_HEAD:
            self.follow.answer_head(call, answer, now)
        elif pending.work is Work.UNSAFE_GAP:
            self.gap.answer(call, answer, now)
        elif isinstance(call, ForkchoiceUpdate) and call.attributes is None:
            self._answer_forkchoice(pending.work, call, answer, now)
        elif pending.work is Work.BUILD_API:
            self.build_api.answer(pending, answer, now)
        elif pending.work is Work.REPLACEMENT:
            self.supervisor.answer(pending, answer, now)
        elif not (is_syncing(answer) and self._hold(pending, answer)):
            self._answer_work(pending, answer, now)

    def fail(self, work: Work, call: CoreCall | None, error: TemporaryError, now: Instant) -> None:
        """A call is to be tried again: the sequencer has its own schedule [SEQ6], other work backs off. A failed update
        is not repeated before its cause is."""
        state = self._state
        doubted, state.held, state.finishing, state.doubted = state.doubted, None, None, None
        if work is Work.ATTRIBUTES:
            state.attributes.fail()
        if work is Work.FOLLOW_HEAD:
            self.follow.fail(work, error, now)
            return
        if work is Work.UNSAFE_GAP:
            self.gap.fail()
        if work is Work.SEQUENCER:
            state.production.sequencer.retry_later(error, now.unix)
            state.show_sequencer_problem()
            seconds = RETRY_SECONDS
        else:
            seconds = state.fail(work, error, now)
        if work is Work.BUILD_API:
            self.build_api.fail_commit(str(error))
        if doubted is not None or (isinstance(call, ForkchoiceUpdate) and call.attributes is None):
            state.forkchoice_at = now.monotonic + seconds

    def _hold(self, pending: PendingCall, answer: CoreAnswer) -> bool:
        """The engine may have lost blocks, in a restart say: the heads are sent again before the answer counts. It
        takes them up then, or shows that a new start is needed [ENG38]."""
        self._state.controller.distrust()
        if self._state.controller.forkchoice_due() is None:
            return False
        self._state.held = (pending, answer)
        return True

    def _answer_doubt(self, tip: L2BlockRef, answer: CoreAnswer) -> None:
        """Raises TemporaryError for an engine that is busy, and ResetError for one that has lost the tip [UNS7]."""
        text = "the engine answers SYNCING to a forkchoice update"
        if answer is None:
            raise ResetError(f"{text}: it does not have block {tip} any more")
        raise TemporaryError(f"{text}: it fetches the chain up to block {self._state.fetched}")

    def _answer_forkchoice(self, work: Work, call: ForkchoiceUpdate, answer: CoreAnswer, now: Instant) -> None:
        state = self._state
        if is_syncing(answer) and state.fetched is not None and state.confirmed_heads is not None:
            state.doubted = work, state.confirmed_heads.unsafe
            return
        held, finishing, state.held, state.finishing = state.held, state.finishing, None, None
        processed = state.attributes.answer(call, answer)
        if state.controller.forkchoice_due() is None:
            state.confirm(now)
        state.report(processed, now)
        state.publish(now)
        if held is not None:
            self._answer_work(*held, now)
        elif finishing is Work.UNSAFE_BLOCK:
            state.recover(finishing.task)
        elif finishing is Work.BUILD_API:
            self.build_api.finish_commit(now)

    def _answer_work(self, pending: PendingCall, answer: CoreAnswer, now: Instant) -> None:
        state, call = self._state, pending.call
        if pending.work is Work.UNSAFE_BLOCK and isinstance(call, NewPayload):
            self._answer_unsafe(call, answer)
        elif pending.work is Work.SEQUENCER:
            self._answer_sequencer(pending, answer, now)
        else:
            state.report(state.attributes.answer(call, answer), now)
            state.publish(now)

    def _answer_unsafe(self, call: NewPayload, answer: CoreAnswer) -> None:
        state = self._state
        result = state.unsafe.answer(call, answer)
        if isinstance(result, DroppedUnsafeBlock):
            state.drop_unsafe(result)
            state.recover(Work.UNSAFE_BLOCK.task)
            return
        state.controller.advance(result.ref)
        state.finishing = Work.UNSAFE_BLOCK
        state.do(act.UnsafeBlockInserted(result.ref, len(state.unsafe.queue) - 1))

    def _answer_sequencer(self, pending: PendingCall, answer: CoreAnswer, now: Instant) -> None:
        state, call = self._state, pending.call
        if isinstance(call, GetPayload):
            state.do(act.PayloadFetched(now.monotonic - pending.since))
        event = state.production.answer(call, answer, now.unix)
        sequencer = state.production.sequencer
        if isinstance(call, GetPayload) and sequencer.sealed is not None and not sequencer.conducted:
            state.publish_block(sequencer.sealed)
        if isinstance(event, BuildDropped):
            state.do(act.BuildFailed())
        elif isinstance(event, SequencedBlock):
            state.controller.advance(event.block.ref)
            state.note_sequenced(event.block.ref)
            state.finishing = Work.SEQUENCER
            state.do(act.BlockSequenced(event))
            state.publish(now)
        state.show_sequencer_problem()
