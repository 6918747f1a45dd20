"""What the batch queue and the batch stage share: their outputs, the source of their batches, the pending span."""

from abc import ABC, abstractmethod
from copy import copy
from typing import NamedTuple, Protocol

from rollup_node.stages.derivation.codec.batches import SingularBatch, SpanBatch, SpanCursor
from rollup_node.stages.derivation.pipeline.batch_checks import SingularBatchChecks
from rollup_node.stages.derivation.pipeline.events import PipelineEvents
from rollup_node.stages.derivation.pipeline.l1_origins import L1OriginWindow
from rollup_node.stages.derivation.pipeline.outputs import Flow, Need, NeedReset
from rollup_node.stages.derivation.pipeline.span_checks import OverlapBlocks, SpanBatchChecks
from rollup_node.stages.derivation.reasons.batches import PendingSpanMismatch
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
        """Discards all batches of the L1 block; None when it is exhausted."""

    def flush_channel(self) -> None:
        """Drop the channel being read, then the staging channel."""


StageOutput = AcceptedBatch | Need | NeedReset | Flow


class BatchStageContext(NamedTuple):
    """What a batch stage works with; a stage that replaces another one takes it over."""

    config: RollupConfig
    singular_checks: SingularBatchChecks
    span_checks: SpanBatchChecks
    l1_window: L1OriginWindow
    overlap_blocks: OverlapBlocks
    provider: NextBatchProvider
    events: PipelineEvents
    span_overlap_check: bool


class PendingSpan:
    """The blocks of an accepted span that are not emitted yet [E1]."""

    def __init__(self, config: RollupConfig, l1_window: L1OriginWindow, events: PipelineEvents) -> None:
        self._block_time = config.block_time
        self._l1_window, self._events = l1_window, events
        self._cursor: SpanCursor | None = None

    def start(self, cursor: SpanCursor) -> None:
        """Take the blocks from the cursor on."""
        self._cursor = cursor

    def clear(self) -> None:
        self._cursor = None

    @property
    def rest(self) -> SpanCursor | None:
        """A cursor of its own over the blocks that are left; None without any."""
        return copy(self._cursor)

    def pop(self, parent: L2BlockRef) -> AcceptedBatch | None:
        """Return the next block, with the parent's hash, if its time is the next one.

        Otherwise the pending span is discarded [X4, X6]. Raises CriticalError if the block's origin is not in the L1
        window, which extraction rules out."""
        cursor = self._cursor
        if cursor is None:
            return None
        following = parent.timestamp + self._block_time
        if cursor.timestamp != following:
            self._cursor = None
            self._events.drop(DropEffect.DISCARDED, PendingSpanMismatch(cursor.timestamp, following))
            return None
        block = cursor.pop()
        origin = None if block is None else self._l1_window.ref(block.epoch_number)
        if block is None or origin is None:
            raise CriticalError(f"the L1 origin of a block of an accepted span, at time {following}, is not known")
        if not cursor.left:
            self._cursor = None
        batch = SingularBatch(parent.hash, origin.number, origin.hash, block.timestamp, block.transactions)
        self._events.span_block(cursor.span, batch)
        return AcceptedBatch(batch, self._cursor is None)


class _NoBatches:
    """The stages before a fork: nothing follows its span."""

    def next_batch(self) -> Flow:
        return Flow.MORE

    def discard_block(self) -> None:
        return None

    def flush_channel(self) -> None:
        return None


class BaseBatchStage(ABC):
    """Base of BatchQueue and BatchStage. `stalled_by` is the reason of an undecided batch that holds up all others."""

    def __init__(self, context: BatchStageContext) -> None:
        self.pending_span = PendingSpan(context.config, context.l1_window, context.events)
        self.stalled_by: Reason | None = None
        self._context, self.l1_window = context, context.l1_window

    def _empty_batch(self, parent: L2BlockRef, origin: L1BlockRef, out_of_data: bool) -> AcceptedBatch | None:
        config, l1_window = self._context.config, self._context.l1_window
        batch = l1_window.empty_batch(parent, origin, out_of_data, config.seq_window_size, config.block_time)
        return None if batch is None else AcceptedBatch(batch, True)

    def fork(self) -> "BaseBatchStage | None":
        """Return a stage of its own for the rest of the pending span, or None; this stage stays as it is."""
        rest = self.pending_span.rest
        if rest is None:
            return None
        window = self._context.l1_window.copy()
        fork = type(self)(self._context._replace(l1_window=window, provider=_NoBatches(), events=PipelineEvents()))
        fork.pending_span.start(rest)
        return fork

    @abstractmethod
    def next(self, parent: L2BlockRef, origin: L1Block) -> StageOutput:
        """One step: a block to build on `parent`, a need, or how to go on. `origin` is the L1 block being read."""

    def discard(self) -> int:
        """Discards all batches because another stage takes over; the number of those that were queued [PS3]."""
        self.pending_span.clear()
        return 0

    def flush(self) -> None:
        """Drop the pending span, then the channels before it [E5b]."""
        self.pending_span.clear()
        self._context.provider.flush_channel()
