"""The batch stage, from Holocene on: a batch is checked once, when read; an invalid one flushes its channel."""

from rollup_node.stages.derivation.codec.batches import SingularBatch, SpanBatch
from rollup_node.stages.derivation.pipeline.base_batch_stage import (
    AcceptedBatch,
    BaseBatchStage,
    BatchStageContext,
    StageOutput,
)
from rollup_node.stages.derivation.pipeline.batch_checks import ACCEPTED, BatchValidity, BatchVerdict, drop
from rollup_node.stages.derivation.pipeline.outputs import Flow, NeedL2Blocks, NeedReset
from rollup_node.stages.derivation.reasons.reason import Reason
from rollup_node.stages.messages.derivation import DropEffect
from rollup_node.stages.protocol.errors import CriticalError
from rollup_node.stages.protocol.types import L1Block, L1BlockRef, L2BlockRef


class BatchStage(BaseBatchStage):
    """Holds at most one span: the one being checked, or the pending one."""

    def __init__(self, context: BatchStageContext) -> None:
        super().__init__(context)
        self._span: SpanBatch | None = None

    def next(self, parent: L2BlockRef, origin: L1Block) -> StageOutput:
        """One step [BS1 to BS9]. Raises CriticalError for a verdict that this stage's state rules out."""
        candidate = self._candidate(parent, origin) if self._span is None else self._span
        if isinstance(candidate, SpanBatch):
            if self._span is None:
                self._context.overlap_blocks.begin_check()
            self._span = candidate
            first = self._accept_span(candidate, parent, origin.ref)
            if isinstance(first, NeedL2Blocks):
                return first
            self._span = None
            candidate = Flow.MORE if first is None else first.batch
        if isinstance(candidate, SingularBatch):
            return self._accept_block(candidate, parent, origin.ref)
        return candidate

    def _candidate(self, parent: L2BlockRef, origin: L1Block) -> StageOutput | SingularBatch | SpanBatch:
        """Return what is to be checked next; the forced empty batch is not [BS1 to BS5, BS9]."""
        context, l1_window = self._context, self._context.l1_window
        behind = l1_window.advance_origin(origin, parent)
        if behind or parent.l1_origin.number == origin.header.number:
            return context.provider.discard_block() or Flow.OUT_OF_DATA
        if len(l1_window) < 2:
            raise CriticalError(f"the L1 window has {len(l1_window)} blocks at {origin.ref}, safe head {parent}")
        mismatch = l1_window.mismatch(parent)
        if mismatch is not None:
            return NeedReset(mismatch)
        pending = self.pending_span.pop(parent)
        if pending is not None:
            return pending.batch
        pulled = context.provider.next_batch()
        if pulled is Flow.OUT_OF_DATA:
            return self._empty_batch(parent, origin.ref, True) or Flow.OUT_OF_DATA
        return pulled

    def _accept_span(
        self, span: SpanBatch, parent: L2BlockRef, origin: L1BlockRef
    ) -> AcceptedBatch | NeedL2Blocks | None:
        """Return the first new block of a span with valid prefix and overlap; None when it is discarded [BS5]."""
        checks, l1_window = self._context.span_checks, self._context.l1_window
        verdict = checks.check_prefix(span, l1_window, parent, origin)
        if verdict is ACCEPTED and self._context.span_overlap_check:
            verdict = checks.check_overlap(span, parent)
        if isinstance(verdict, NeedL2Blocks):
            return verdict
        if verdict.validity is not BatchValidity.ACCEPT:
            self._discard_batch(verdict)
            return None
        cursor = checks.extract(span, l1_window, parent)
        if isinstance(cursor, Reason):
            self._discard_batch(drop(cursor))
            return None
        self.pending_span.start(cursor)
        return self.pending_span.pop(parent)

    def _accept_block(self, batch: SingularBatch, parent: L2BlockRef, origin: L1BlockRef) -> StageOutput:
        """Return a singular batch or a block of a span, if it is valid; each is concluding [BS6]."""
        verdict = self._context.singular_checks.check(batch, self._context.l1_window, parent, origin)
        if verdict.validity is BatchValidity.ACCEPT:
            return AcceptedBatch(batch, True)
        self._discard_batch(verdict)
        return Flow.MORE

    def _discard_batch(self, verdict: BatchVerdict) -> None:
        """Discard a batch: an invalid one flushes, a past or undecided one goes alone [BS5, BS6]."""
        if verdict.reason is None or verdict.validity is BatchValidity.FUTURE:
            raise CriticalError(f"a batch is {verdict.validity.value}, which is impossible here: {verdict.reason}")
        if verdict.validity is BatchValidity.DROP:
            self._context.events.drop(DropEffect.FLUSHED, verdict.reason)
            self.flush()
            return
        effect = DropEffect.PAST if verdict.validity is BatchValidity.PAST else DropEffect.UNDECIDED
        self._context.events.drop(effect, verdict.reason)

    def discard(self) -> int:
        """Discards the span being checked and the pending span."""
        self._span = None
        return super().discard()

    def flush(self) -> None:
        """Drop the span being checked, the pending span and the channels before them [BS7]."""
        self._span = None
        super().flush()
