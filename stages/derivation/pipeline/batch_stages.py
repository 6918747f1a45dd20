"""The batch queue, before Holocene, and the batch stage: their outputs, where batches come from, the pending span."""

from abc import ABC, abstractmethod
from copy import copy
from typing import NamedTuple, Protocol

from rollup_node.stages.derivation.codec.batches import SingularBatch, SpanBatch, SpanCursor
from rollup_node.stages.derivation.pipeline.batch_checks import (
    ACCEPTED,
    BatchChecks,
    BatchValidity,
    BatchVerdict,
    OverlapBlocks,
    drop,
)
from rollup_node.stages.derivation.pipeline.l1_origins import L1OriginWindow
from rollup_node.stages.derivation.pipeline.outputs import Flow, Need, NeedL2Blocks, NeedReset, PipelineEvents
from rollup_node.stages.derivation.reasons.batches import PendingSpanMismatch, QueuedBatchPast
from rollup_node.stages.derivation.reasons.reason import Reason
from rollup_node.stages.messages.derivation import DropEffect
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.errors import CriticalError
from rollup_node.stages.protocol.types import L1Block, L1BlockRef, L2BlockRef


class AcceptedBatch(NamedTuple):
    """A block to build; `concluding` if no further block of the same batch follows."""

    batch: SingularBatch
    concluding: bool


class NextBatchProvider(Protocol):
    """The stages before: channels and their batches in the L1 block being read."""

    def next_batch(self) -> SingularBatch | SpanBatch | Need | Flow:
        """Return the next batch; OUT_OF_DATA when the L1 block is exhausted."""

    def discard_block(self) -> Need | None:
        """Discard all batches of the L1 block; None when it is exhausted."""

    def flush_channel(self) -> None:
        """Drop the channel being read, then the staging channel."""


StageOutput = AcceptedBatch | Need | NeedReset | Flow


class BatchStageContext(NamedTuple):
    """What a batch stage works with; a stage that replaces another one takes it over."""

    config: RollupConfig
    checks: BatchChecks
    l1_window: L1OriginWindow
    overlap_blocks: OverlapBlocks
    provider: NextBatchProvider
    events: PipelineEvents
    span_overlap_check: bool


class _NoBatches:
    """The stages before a fork: nothing follows its span."""

    def next_batch(self) -> Flow:
        return Flow.MORE

    def discard_block(self) -> None:
        return None

    def flush_channel(self) -> None:
        return None


class BaseBatchStage(ABC):
    """Base of BatchQueue and BatchStage. `stalled_by` is the reason of an undecided batch that holds up all others.

    `pending_span` has the blocks of an accepted span that are not emitted yet [E1]."""

    def __init__(self, context: BatchStageContext) -> None:
        self.pending_span: SpanCursor | None = None
        self.stalled_by: Reason | None = None
        self._context, self.l1_window = context, context.l1_window

    def _pending(self, parent: L2BlockRef) -> AcceptedBatch | None:
        """Return the next block of the pending span, with the parent's hash, if its time is the next one.

        Otherwise the pending span is discarded [X4, X6]. Raises CriticalError if the block's origin is not in the L1
        window, which extraction rules out."""
        cursor, context = self.pending_span, self._context
        if cursor is None:
            return None
        following = parent.timestamp + context.config.block_time
        if cursor.timestamp != following:
            self.pending_span = None
            context.events.drop(DropEffect.DISCARDED, PendingSpanMismatch(cursor.timestamp, following))
            return None
        block = cursor.pop()
        origin = None if block is None else self.l1_window.ref(block.epoch_number)
        if block is None or origin is None:
            raise CriticalError(f"the L1 origin of a block of an accepted span, at time {following}, is not known")
        if not cursor.left:
            self.pending_span = None
        batch = SingularBatch(parent.hash, origin.number, origin.hash, block.timestamp, block.transactions)
        context.events.span_block(cursor.span, batch)
        return AcceptedBatch(batch, self.pending_span is None)

    def _empty_batch(self, parent: L2BlockRef, origin: L1BlockRef, out_of_data: bool) -> AcceptedBatch | None:
        config = self._context.config
        batch = self.l1_window.empty_batch(parent, origin, out_of_data, config.seq_window_size, config.block_time)
        return None if batch is None else AcceptedBatch(batch, True)

    def fork(self) -> "BaseBatchStage | None":
        """Return a stage of its own for the rest of the pending span, or None; this stage stays as it is."""
        if self.pending_span is None:
            return None
        window = self.l1_window.copy()
        fork = type(self)(self._context._replace(l1_window=window, provider=_NoBatches(), events=PipelineEvents()))
        fork.pending_span = copy(self.pending_span)
        return fork

    @abstractmethod
    def next(self, parent: L2BlockRef, origin: L1Block) -> StageOutput:
        """One step: a block to build on `parent`, a need, or how to go on. `origin` is the L1 block being read."""

    def discard(self) -> int:
        """Discard all batches because another stage takes over; the number of those that were queued [PS3]."""
        self.pending_span = None
        return 0

    def flush(self) -> None:
        """Drop the pending span, then the channels before it [E5b]."""
        self.pending_span = None
        self._context.provider.flush_channel()


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
        pending = self._pending(parent)
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
        """Queue the batch that arrived, then derive from the queue or an empty batch [BQ5 to BQ9]."""
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
            return context.checks.check(batch, context.l1_window, parent, inclusion)
        return context.checks.check_full(batch, context.l1_window, parent, inclusion)

    def _accept(self, batch: Batch, parent: L2BlockRef) -> AcceptedBatch:
        """Return a singular batch, or the first new block of a span; the others become the pending span [BQ10, X5]."""
        if isinstance(batch, SingularBatch):
            return AcceptedBatch(batch, True)
        cursor = self._context.checks.extract(batch, self._context.l1_window, parent)
        if isinstance(cursor, Reason):
            raise CriticalError(f"the blocks of an accepted span cannot be extracted: {cursor}")
        self.pending_span = cursor
        first = self._pending(parent)
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
        """Discard the queue and the pending span; the number of batches in the queue [PS3]."""
        discarded = len(self._queue)
        self._queue.clear()
        self._attempt = None
        super().discard()
        return discarded

    def flush(self) -> None:
        """Drop the pending span and the channels before it; the queue stays."""
        self._attempt = None
        super().flush()


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
        pending = self._pending(parent)
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
        checks, l1_window = self._context.checks, self._context.l1_window
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
        self.pending_span = cursor
        return self._pending(parent)

    def _accept_block(self, batch: SingularBatch, parent: L2BlockRef, origin: L1BlockRef) -> StageOutput:
        """Return a singular batch or a block of a span, if it is valid; each is concluding [BS6]."""
        verdict = self._context.checks.check(batch, self._context.l1_window, parent, origin)
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
        """Discard the span being checked and the pending span."""
        self._span = None
        return super().discard()

    def flush(self) -> None:
        """Drop the span being checked, the pending span and the channels before them [BS7]."""
        self._span = None
        super().flush()
