"""The batch queue, before Holocene: batches are queued, and all are checked again for each block to derive."""

from rollup_node.stages.derivation.codec.batches import SingularBatch, SpanBatch
from rollup_node.stages.derivation.pipeline.base_batch_stage import (
    AcceptedBatch,
    BaseBatchStage,
    BatchStageContext,
    StageOutput,
)
from rollup_node.stages.derivation.pipeline.batch_checks import BatchValidity, BatchVerdict
from rollup_node.stages.derivation.pipeline.outputs import Flow, NeedL2Blocks, NeedReset
from rollup_node.stages.derivation.reasons.batches import QueuedBatchPast
from rollup_node.stages.derivation.reasons.reason import Reason
from rollup_node.stages.messages.derivation import DropEffect
from rollup_node.stages.protocol.errors import CriticalError
from rollup_node.stages.protocol.types import L1Block, L1BlockRef, L2BlockRef

Batch = SingularBatch | SpanBatch


class _Attempt:
    """One call of the queue, kept until its L2 blocks are there: the pulled batch, and the queue position."""

    def __init__(self, batch: Batch | None) -> None:
        self.arrived = batch
        self.out_of_data = batch is None
        self.position = 0


class BatchQueue(BaseBatchStage):
    """Batches in the order of their arrival, each with its inclusion block [BQ12]."""

    def __init__(self, context: BatchStageContext) -> None:
        super().__init__(context)
        self._queue: list[tuple[Batch, L1BlockRef]] = []
        self._attempt: _Attempt | None = None

    def next(self, parent: L2BlockRef, origin: L1Block) -> StageOutput:
        """One step [BQ1 to BQ10]. Raises CriticalError when an accepted span has no block to emit."""
        if self._attempt is None:
            started = self._start(parent, origin)
            if not isinstance(started, _Attempt):
                return started
            self._attempt = started
        output = self._derive(self._attempt, parent, origin.ref)
        if not isinstance(output, NeedL2Blocks):
            self._attempt = None
        return output

    def _start(self, parent: L2BlockRef, origin: L1Block) -> StageOutput | _Attempt:
        """Return the next block of the pending span, or else a batch from the stages before [BQ1 to BQ4]."""
        context = self._context
        pending = self.pending_span.pop(parent)
        if pending is not None:
            return pending
        if context.l1_window.advance_origin(origin, parent):
            return context.provider.discard_block() or Flow.OUT_OF_DATA
        pulled = context.provider.next_batch()
        if not isinstance(pulled, SingularBatch | SpanBatch) and pulled is not Flow.OUT_OF_DATA:
            return pulled
        context.overlap_blocks.begin_check()
        return _Attempt(pulled if isinstance(pulled, SingularBatch | SpanBatch) else None)

    def _derive(self, attempt: _Attempt, parent: L2BlockRef, origin: L1BlockRef) -> StageOutput:
        """Queues the batch that arrived, then derives from the queue or an empty batch [BQ5 to BQ9]."""
        if attempt.arrived is not None:
            verdict = self._check(attempt.arrived, parent, origin)
            if isinstance(verdict, NeedL2Blocks):
                return verdict
            if verdict.validity is BatchValidity.DROP:
                self._drop(verdict)
            else:
                self._queue.append((attempt.arrived, origin))
            attempt.arrived = None
        mismatch = self._context.l1_window.mismatch(parent)
        if mismatch is not None:
            return NeedReset(mismatch)
        output = self._walk(attempt, parent)
        if output is None:
            output = self._empty_batch(parent, origin, attempt.out_of_data)
        return output or (Flow.OUT_OF_DATA if attempt.out_of_data else Flow.MORE)

    def _walk(self, attempt: _Attempt, parent: L2BlockRef) -> StageOutput | None:
        """Return the first accepted batch of the queue, or None; an undecided one stops the walk [BQ7, BQ11]."""
        self.stalled_by = None
        while attempt.position < len(self._queue):
            batch, inclusion = self._queue[attempt.position]
            verdict = self._check(batch, parent, inclusion)
            if isinstance(verdict, NeedL2Blocks):
                return verdict
            if verdict.validity is BatchValidity.UNDECIDED:
                self.stalled_by = verdict.reason
                return Flow.OUT_OF_DATA if attempt.out_of_data else Flow.MORE
            if verdict.validity is BatchValidity.FUTURE:
                attempt.position += 1
                continue
            del self._queue[attempt.position]
            if verdict.validity is BatchValidity.ACCEPT:
                return self._accept(batch, parent)
            self._drop(verdict)
        return None

    def _check(self, batch: Batch, parent: L2BlockRef, inclusion: L1BlockRef) -> BatchVerdict | NeedL2Blocks:
        context = self._context
        if isinstance(batch, SingularBatch):
            return context.singular_checks.check(batch, context.l1_window, parent, inclusion)
        return context.span_checks.check_full(batch, context.l1_window, parent, inclusion)

    def _accept(self, batch: Batch, parent: L2BlockRef) -> AcceptedBatch:
        """Return a singular batch, or the first new block of a span; the others become the pending span [BQ10, X5]."""
        if isinstance(batch, SingularBatch):
            return AcceptedBatch(batch, True)
        cursor = self._context.span_checks.extract(batch, self._context.l1_window, parent)
        if isinstance(cursor, Reason):
            raise CriticalError(f"the blocks of an accepted span cannot be extracted: {cursor}")
        self.pending_span.start(cursor)
        first = self.pending_span.pop(parent)
        if first is None:
            raise CriticalError("an accepted span has no next block")
        return first

    def _drop(self, verdict: BatchVerdict) -> None:
        reason = verdict.reason
        # A past batch is in the queue only if two forks activated in one L1 step. op-node stops; we drop it [H6].
        if verdict.validity is BatchValidity.PAST:
            reason = QueuedBatchPast(str(reason))
        if reason is not None:
            self._context.events.drop(DropEffect.DROPPED, reason)

    def discard(self) -> int:
        """Discards the queue and the pending span; the number of batches in the queue [PS3]."""
        discarded = len(self._queue)
        self._queue.clear()
        self._attempt = None
        super().discard()
        return discarded

    def flush(self) -> None:
        """Drop the pending span and the channels before it; the queue stays."""
        self._attempt = None
        super().flush()
