"""The batch queue: batches wait for their turn, and every one is judged anew whenever a block is to be derived
(derivation-rules 18)."""

from rollup_node.stages.derivation.codec.batches import SingularBatch, SpanBatch
from rollup_node.stages.derivation.pipeline.base_batch_stage import Accepted, BatchStages, Outcome, StageParts
from rollup_node.stages.derivation.pipeline.batch_checks import Judgement, Verdict
from rollup_node.stages.derivation.pipeline.outputs import Flow, NeedL2Blocks, NeedReset
from rollup_node.stages.derivation.reasons.reasons import Effect, Reason, Why
from rollup_node.stages.protocol.errors import CriticalError
from rollup_node.stages.protocol.types import L1Block, L1BlockRef, L2BlockRef

Batch = SingularBatch | SpanBatch


class _Attempt:
    """One call of the queue, kept over the needs that come up in it: what was read, and how far the queue was gone
    through."""

    def __init__(self, batch: Batch | None) -> None:
        self.arrived = batch
        self.out_of_data = batch is None
        self.position = 0


class BatchQueue(BatchStages):
    """Batches in the order of their arrival, each with the L1 block it was included in."""

    def __init__(self, parts: StageParts) -> None:
        super().__init__(parts)
        self._queue: list[tuple[Batch, L1BlockRef]] = []
        self._attempt: _Attempt | None = None

    def next(self, parent: L2BlockRef, origin: L1Block) -> Outcome:
        """BQ1 to BQ10."""
        if self._attempt is None:
            started = self._start(parent, origin)
            if not isinstance(started, _Attempt):
                return started
            self._attempt = started
        outcome = self._derive(self._attempt, parent, origin.ref)
        if not isinstance(outcome, NeedL2Blocks):
            self._attempt = None
        return outcome

    def _start(self, parent: L2BlockRef, origin: L1Block) -> Outcome | _Attempt:
        """BQ1 to BQ4."""
        parts = self._parts
        held = self.rest.pop(parent)
        if held is not None:
            return held
        if parts.epochs.observe(origin, parent):
            return parts.source.skip() or Flow.OUT_OF_DATA
        pulled = parts.source.pull()
        if not isinstance(pulled, SingularBatch | SpanBatch) and pulled is not Flow.OUT_OF_DATA:
            return pulled
        parts.safe_chain.begin()
        return _Attempt(pulled if isinstance(pulled, SingularBatch | SpanBatch) else None)

    def _derive(self, attempt: _Attempt, parent: L2BlockRef, origin: L1BlockRef) -> Outcome:
        """BQ5 to BQ9."""
        if attempt.arrived is not None:
            verdict = self._judge(attempt.arrived, parent, origin)
            if isinstance(verdict, NeedL2Blocks):
                return verdict
            if verdict.judgement is Judgement.DROP:
                self._note(verdict)
            else:
                self._queue.append((attempt.arrived, origin))
            attempt.arrived = None
        mismatch = self._parts.epochs.mismatch(parent)
        if mismatch is not None:
            return NeedReset(mismatch)
        outcome = self._go_through(attempt, parent)
        if outcome is None:
            outcome = self._empty_batch(parent, origin, attempt.out_of_data)
        return outcome or (Flow.OUT_OF_DATA if attempt.out_of_data else Flow.MORE)

    def _go_through(self, attempt: _Attempt, parent: L2BlockRef) -> Outcome | None:
        """The first batch that is accepted; None when there is none (BQ7). An undecided one stops the queue."""
        self.waiting = None
        while attempt.position < len(self._queue):
            batch, inclusion = self._queue[attempt.position]
            verdict = self._judge(batch, parent, inclusion)
            if isinstance(verdict, NeedL2Blocks):
                return verdict
            if verdict.judgement is Judgement.UNDECIDED:
                self.waiting = verdict.reason
                return Flow.OUT_OF_DATA if attempt.out_of_data else Flow.MORE
            if verdict.judgement is Judgement.FUTURE:
                attempt.position += 1
                continue
            del self._queue[attempt.position]
            if verdict.judgement is Judgement.ACCEPT:
                return self._accepted(batch, parent)
            self._note(verdict)
        return None

    def _judge(self, batch: Batch, parent: L2BlockRef, inclusion: L1BlockRef) -> Verdict | NeedL2Blocks:
        checks, epochs = self._parts.checks, self._parts.epochs
        if isinstance(batch, SingularBatch):
            return checks.singular(batch, epochs, parent, inclusion)
        return checks.span_full(batch, epochs, parent, inclusion)

    def _accepted(self, batch: Batch, parent: L2BlockRef) -> Accepted:
        """BQ10."""
        if isinstance(batch, SingularBatch):
            return Accepted(batch, True)
        cursor = self._parts.checks.extract(batch, self._parts.epochs, parent)
        if isinstance(cursor, Reason):
            raise CriticalError(f"an accepted span cannot be used: {cursor}")
        self.rest.hold(cursor)
        first = self.rest.pop(parent)
        if first is None:
            raise CriticalError("an accepted span has no next block")
        return first

    def _note(self, verdict: Verdict) -> None:
        """A past batch can be in the queue only if two forks activated in one L1 step; it is dropped (H6)."""
        reason = verdict.reason
        if verdict.judgement is Judgement.PAST:
            reason = Why.QUEUE_PAST(problem=str(reason))
        if reason is not None:
            self._parts.trace.note(Effect.DROPPED, reason)

    def switched(self) -> int:
        """Forgets the queue (PS3)."""
        lost = len(self._queue)
        self._queue.clear()
        self._attempt = None
        super().switched()
        return lost

    def flush(self) -> None:
        """As the base; the queue itself stays."""
        self._attempt = None
        super().flush()
