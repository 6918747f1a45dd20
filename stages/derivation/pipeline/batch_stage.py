"""The batch stage: each batch is judged once, when it is read, and an invalid one takes its channel with it
(derivation-rules 19)."""

from rollup_node.stages.derivation.codec.batches import SingularBatch, SpanBatch
from rollup_node.stages.derivation.pipeline.base_batch_stage import Accepted, BatchStages, Outcome, StageParts
from rollup_node.stages.derivation.pipeline.batch_checks import ACCEPTED, Judgement, Verdict
from rollup_node.stages.derivation.pipeline.outputs import Flow, NeedL2Blocks, NeedReset
from rollup_node.stages.derivation.reasons.reasons import Effect, Reason
from rollup_node.stages.protocol.errors import CriticalError
from rollup_node.stages.protocol.types import L1Block, L1BlockRef, L2BlockRef


class BatchStage(BatchStages):
    """Holds at most one span: the one being judged, or the rest of the one that is given out."""

    def __init__(self, parts: StageParts) -> None:
        super().__init__(parts)
        self._span: SpanBatch | None = None

    def next(self, parent: L2BlockRef, origin: L1Block) -> Outcome:
        """BS1 to BS9."""
        candidate = self._candidate(parent, origin) if self._span is None else self._span
        if isinstance(candidate, SpanBatch):
            if self._span is None:
                self._parts.safe_chain.begin()
            self._span = candidate
            first = self._judge_span(candidate, parent, origin.ref)
            if isinstance(first, NeedL2Blocks):
                return first
            self._span = None
            candidate = Flow.MORE if first is None else first.batch
        if isinstance(candidate, SingularBatch):
            return self._judge_block(candidate, parent, origin.ref)
        return candidate

    def _candidate(self, parent: L2BlockRef, origin: L1Block) -> Outcome | SingularBatch | SpanBatch:
        """BS1 to BS4, and what is to be judged (BS5, BS9). The empty block of an expired window is not."""
        parts = self._parts
        behind = parts.epochs.observe(origin, parent)
        if behind or parent.l1_origin.number == origin.header.number:
            return parts.source.skip() or Flow.OUT_OF_DATA
        if len(parts.epochs) < 2:
            raise CriticalError(f"the L1 window has {len(parts.epochs)} blocks at {origin.ref}, safe head {parent}")
        mismatch = parts.epochs.mismatch(parent)
        if mismatch is not None:
            return NeedReset(mismatch)
        held = self.rest.pop(parent)
        if held is not None:
            return held.batch
        pulled = parts.source.pull()
        if pulled is Flow.OUT_OF_DATA:
            return self._empty_batch(parent, origin.ref, True) or Flow.OUT_OF_DATA
        return pulled

    def _judge_span(self, span: SpanBatch, parent: L2BlockRef, origin: L1BlockRef) -> Accepted | NeedL2Blocks | None:
        """The first new block of a span whose anchors hold; None when the span is gone."""
        checks, epochs = self._parts.checks, self._parts.epochs
        verdict = checks.span_prefix(span, epochs, parent, origin)
        if verdict is ACCEPTED and self._parts.span_overlap_check:
            verdict = checks.span_overlap(span, parent)
        if isinstance(verdict, NeedL2Blocks):
            return verdict
        if verdict.judgement is not Judgement.ACCEPT:
            self._dispose(verdict)
            return None
        cursor = checks.extract(span, epochs, parent)
        if isinstance(cursor, Reason):
            self._dispose(Verdict(Judgement.DROP, cursor))
            return None
        self.rest.hold(cursor)
        return self.rest.pop(parent)

    def _judge_block(self, batch: SingularBatch, parent: L2BlockRef, origin: L1BlockRef) -> Outcome:
        """BS6."""
        verdict = self._parts.checks.singular(batch, self._parts.epochs, parent, origin)
        if verdict.judgement is Judgement.ACCEPT:
            return Accepted(batch, True)
        self._dispose(verdict)
        return Flow.MORE

    def _dispose(self, verdict: Verdict) -> None:
        if verdict.reason is None or verdict.judgement is Judgement.FUTURE:
            raise CriticalError(f"a batch is judged {verdict.judgement.value}, which cannot be here: {verdict.reason}")
        if verdict.judgement is Judgement.DROP:
            self._parts.trace.note(Effect.FLUSHED, verdict.reason)
            self.flush()
            return
        effect = Effect.PAST if verdict.judgement is Judgement.PAST else Effect.LOST
        self._parts.trace.note(effect, verdict.reason)

    def switched(self) -> int:
        """Forgets the span."""
        self._span = None
        return super().switched()

    def flush(self) -> None:
        """As the base, with the span being judged."""
        self._span = None
        super().flush()
