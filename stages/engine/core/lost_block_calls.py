"""Puts the latest blocks of this node back into an execution engine that lost them: what is asked of the p2p process
and of L1, and when the blocks are queued [SEQ39 to SEQ43]."""

from rollup_node.stages.engine.core import actions as act
from rollup_node.stages.engine.core.calls import CoreAnswer, CoreCall, Instant, PendingCall, Work
from rollup_node.stages.engine.core.state import CoreState
from rollup_node.stages.engine.machines.lost_blocks import LostBlocksPhase
from rollup_node.stages.engine.machines.pipeline_start import GetL1BlockRef
from rollup_node.stages.messages.base import Problem
from rollup_node.stages.protocol.errors import TemporaryError
from rollup_node.stages.protocol.types import L1BlockRef

PROBLEM = "lost blocks"


class LostBlockCalls:
    """`_is_reported`: operators were told since the last start; `_problem` is what `/readyz` says."""

    def __init__(self, state: CoreState) -> None:
        self._state = state
        self._was_pending = False
        self._is_reported = False
        self._problem: Problem | None = None

    def step(self, now: Instant) -> None:
        """What is due without a call."""
        state, lost, heads = self._state, self._state.lost, self._state.confirmed_heads
        if heads is not None and lost.pending:
            lost.on_head(heads.unsafe.id, now.monotonic)
            lost.expire(state.unsafe.queue.next(heads) is not None, now.monotonic)
            head = lost.question(now.monotonic)
            if head is not None:
                state.do(act.RequestLatestBlocks(head))
            self._release(now)
        self._show()

    def _release(self, now: Instant) -> None:
        state, lost = self._state, self._state.lost
        released = lost.release(state.unsafe.queue.lowest, now.monotonic)
        added = [state.unsafe.queue.add(payload) for payload in released]
        if any(added) and not self._is_reported:
            self._is_reported = True
            state.do(act.LostBlocksFound(released[0].block_number, released[-1].block_number))
        state.show_queue()

    def _show(self) -> None:
        """Shows what is waited for, and what became of it."""
        state, lost = self._state, self._state.lost
        problem = self._present_problem()
        if problem != self._problem:
            self._problem = problem
            state.do(act.ShowProblem(PROBLEM, problem))
        heads = state.confirmed_heads
        if self._was_pending and not lost.pending and heads is not None:
            sequences = state.production.sequencer.enabled
            if self._is_reported or (sequences and lost.reason is not None):
                state.do(act.LostBlocksEnded(heads.unsafe, lost.count, lost.reason))
        if not lost.pending:
            self._is_reported = False
        self._was_pending = lost.pending

    def _present_problem(self) -> Problem | None:
        lost = self._state.lost
        if lost.phase is LostBlocksPhase.ASKING and lost.asked > 1 and self._state.production.sequencer.enabled:
            return Problem(None, "sequencer", "waits for the p2p process, which has the latest blocks of this node")
        if self._is_reported and lost.pending:
            text = f"the execution engine lacks the latest blocks of this node, which are put back; it has {lost.head}"
            return Problem(None, "", text)
        return None

    # --- L1 origins --------------------------------------------------------------------------------------------------

    def origin_due(self, now: Instant) -> tuple[Work, CoreCall] | None:
        """The L1 block that is an origin of the blocks."""
        call = self._state.lost.origin_call()
        if call is None:
            self._state.recover(Work.LOST_BLOCKS.task)
        elif not self._state.backoff.is_waiting(Work.LOST_BLOCKS.task, now.monotonic):
            return Work.LOST_BLOCKS, call
        return None

    def answer(self, pending: PendingCall, answer: CoreAnswer) -> None:
        """Takes the answer to such a call. Raises TemporaryError where it is none."""
        if not isinstance(pending.call, GetL1BlockRef):
            return
        if answer is not None and not isinstance(answer, L1BlockRef):
            raise TemporaryError("the answer is no L1 block")
        self._state.lost.add_origin(pending.call.number, answer)
