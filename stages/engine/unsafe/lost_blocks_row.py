"""Puts the latest blocks of this node back into an execution engine that lost them.

What is asked of the p2p process and of L1, and when the blocks are queued [SEQ39 to SEQ43]."""

from collections.abc import Callable

from rollup_node.stages.engine.calls.actions import RequestLatestBlocks, ShowProblem
from rollup_node.stages.engine.calls.calls import CallPurpose, CoreAnswer, CoreCall, GetL1BlockRef, Instant, PendingCall
from rollup_node.stages.engine.heads.context import CoreContext, CoreRow
from rollup_node.stages.engine.unsafe.lost_blocks import LostBlocksPhase
from rollup_node.stages.engine.unsafe.unsafe_rows import UnsafeBlocks
from rollup_node.stages.messages.base import Problem
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.errors import TemporaryError
from rollup_node.stages.protocol.types import L1BlockRef

PROBLEM = "lost blocks"


class LostBlocksRow(CoreRow):
    """`_is_reported`: operators were told since the last start; `_problem` is what `/readyz` says."""

    purpose = CallPurpose.LOST_BLOCKS

    def __init__(self, core: CoreContext, blocks: UnsafeBlocks, sequences: Callable[[], bool]) -> None:
        super().__init__(core)
        self._blocks, self._lost, self._sequences = blocks, blocks.lost, sequences
        self._was_pending = False
        self._is_reported = False
        self._problem: Problem | None = None

    def step(self, now: Instant) -> None:
        """Do what is due without a call."""
        core, lost, heads = self._core, self._lost, self._core.confirmed_heads
        if heads is not None and lost.pending:
            lost.on_head(heads.unsafe.id, now.monotonic)
            lost.expire(self._blocks.chain.queue.next(heads) is not None, now.monotonic)
            head = lost.question(now.monotonic)
            if head is not None:
                core.do(RequestLatestBlocks(head))
            self._release(now)
        self._show()

    def _release(self, now: Instant) -> None:
        queue = self._blocks.chain.queue
        released = self._lost.release(queue.lowest, now.monotonic)
        added = [queue.add(payload) for payload in released]
        if any(added) and not self._is_reported:
            self._is_reported = True
            text, code = "the execution engine lacks the latest blocks, putting them back", Code.BLOCKS_LOST
            first, last = released[0].block_number, released[-1].block_number
            self._core.write("warn", text, code, first=first, last=last, do=code.remedy)
        self._blocks.show_queue()

    def _show(self) -> None:
        """Show what is waited for, and what became of it."""
        core, lost = self._core, self._lost
        problem = self._present_problem()
        if problem != self._problem:
            self._problem = problem
            core.do(ShowProblem(PROBLEM, problem))
        heads = core.confirmed_heads
        if self._was_pending and not lost.pending and heads is not None:
            code, reason = Code.BLOCKS_LOST, lost.reason
            if self._is_reported and reason is None:
                text = "the latest blocks are back in the execution engine"
                core.write("info", text, code, head=heads.unsafe, blocks=lost.count)
            elif reason is not None and (self._is_reported or self._sequences()):
                text = "going on without the latest blocks"
                core.write("warn", text, code, head=heads.unsafe, put_back=lost.count, reason=reason)
        if not lost.pending:
            self._is_reported = False
        self._was_pending = lost.pending

    def _present_problem(self) -> Problem | None:
        lost = self._lost
        if lost.phase is LostBlocksPhase.ASKING and lost.asked > 1 and self._sequences():
            return Problem(None, "sequencer", "waits for the p2p process, which has the latest blocks of this node")
        if self._is_reported and lost.pending:
            text = f"the execution engine lacks the latest blocks of this node, which are put back; it has {lost.head}"
            return Problem(None, "", text)
        return None

    # --- L1 origins --------------------------------------------------------------------------------------------------

    def due(self, now: Instant) -> CoreCall | None:
        call = self._lost.origin_call()
        if call is None:
            self._core.recover(self.purpose)
        return None if call is None or self._core.waits(self.purpose, now) else call

    def answer(self, pending: PendingCall, answer: CoreAnswer, now: Instant) -> None:
        if not isinstance(pending.call, GetL1BlockRef):
            return
        if answer is not None and not isinstance(answer, L1BlockRef):
            raise TemporaryError("the answer is no L1 block")
        self._lost.add_origin(pending.call.number, answer)
