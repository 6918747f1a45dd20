"""The calls of EL sync, which are made while there are no heads, and its progress, which is read beside them."""

from collections.abc import Iterator

from rollup_node.stages.engine.api.engine_api import GetSyncProgress, NewPayload, SyncingBlocks
from rollup_node.stages.engine.core import actions as act
from rollup_node.stages.engine.core.calls import CoreAnswer, CoreCall, Instant, PendingCall, Work
from rollup_node.stages.engine.core.state import SEARCHING, CoreState
from rollup_node.stages.engine.machines.el_sync import ELSyncState
from rollup_node.stages.engine.machines.sync_progress import POLL_SECONDS, SyncProgress
from rollup_node.stages.engine.machines.unsafe_queue import DroppedUnsafeBlock
from rollup_node.stages.messages.base import Problem
from rollup_node.stages.messages.engine import EL_SYNC


class ELSyncCalls:
    """`_phase` is the state that operators were shown last; an estimate replaces its line until the next one."""

    def __init__(self, state: CoreState) -> None:
        self._state = state
        self._progress = SyncProgress()
        self._phase: ELSyncState | None = None

    def head_call(self, now: Instant) -> tuple[Work, CoreCall] | None:
        """The call that is due, unless there are heads, or a start is searched for."""
        state, sync = self._state, self._state.el_sync
        if not sync.in_progress or state.controller.heads is not None:
            return None
        call = None
        if not state.backoff.is_waiting(Work.EL_SYNC.task, now.monotonic):
            call = sync.next(now.monotonic, now.unix)
        if isinstance(call, NewPayload):
            state.unsafe.queue.drop_below(call.payload.block_number)
            state.show_queue()
        self._show()
        return None if call is None else (Work.EL_SYNC, call)

    def answer(self, pending: PendingCall, answer: CoreAnswer, now: Instant) -> None:
        """Takes the answer to a head call. Raises TemporaryError when it is to be made again."""
        self._state.el_sync.answer(pending.call, answer, now.monotonic)
        self._state.recover(Work.EL_SYNC.task)
        self._show()

    def progress_call(self, now: Instant) -> tuple[Work, CoreCall] | None:
        """The engine's progress, every ten seconds while it syncs [ELS13]."""
        if self._state.el_sync.state is not ELSyncState.STARTED or now.monotonic < self._progress.due_at:
            return None
        self._progress.due_at = now.monotonic + POLL_SECONDS
        return Work.EL_SYNC_PROGRESS, GetSyncProgress()

    def answer_progress(self, answer: CoreAnswer, now: Instant) -> None:
        """Takes the engine's progress; an engine that does not tell it is left alone."""
        sync = self._state.el_sync
        if not isinstance(answer, SyncingBlocks) or sync.state is not ELSyncState.STARTED:
            return
        known = 0 if sync.target is None else sync.target.block_number
        estimate = self._progress.add(answer.current, max(known, answer.highest), now.monotonic)
        self._state.do(act.ELSyncProgressed(estimate))
        self._state.do(act.ShowProblem("start", estimate.problem))

    def timers(self) -> Iterator[float | None]:
        """When something becomes due by time alone."""
        if self._state.controller.heads is None:
            yield self._state.el_sync.wait_until()
        if self._state.el_sync.state is ELSyncState.STARTED:
            yield self._progress.due_at

    def _show(self) -> None:
        """Reports what happened, and what is waited for now."""
        state, sync = self._state, self._state.el_sync
        for event in sync.take_events():
            if isinstance(event, DroppedUnsafeBlock):
                state.drop_unsafe(event)
            else:
                state.do(event)
        if sync.state is not self._phase:
            self._phase = sync.state
            self._progress.clear()
            if not sync.in_progress:
                state.recover(Work.EL_SYNC.task)
            problem = Problem(None, EL_SYNC, sync.waiting_for) if sync.in_progress else Problem(None, "", SEARCHING)
            state.do(act.ShowProblem("start", problem))
