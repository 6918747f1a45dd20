"""What the batch queue and the batch stage have in common: what they give out and where their batches come from
(derivation-rules 17)."""

from abc import ABC, abstractmethod
from typing import NamedTuple, Protocol

from rollup_node.stages.derivation.codec.batches import SingularBatch, SpanBatch, SpanCursor
from rollup_node.stages.derivation.pipeline.batch_checks import BatchChecks
from rollup_node.stages.derivation.pipeline.events import Trace
from rollup_node.stages.derivation.pipeline.l1_origins import Epochs
from rollup_node.stages.derivation.pipeline.outputs import Flow, Need, NeedReset
from rollup_node.stages.derivation.pipeline.overlap_blocks import SafeChain
from rollup_node.stages.derivation.reasons.reasons import Effect, Reason, Why
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.errors import CriticalError
from rollup_node.stages.protocol.types import L1Block, L1BlockRef, L2BlockRef


class Accepted(NamedTuple):
    """A block to build; `concluding` if nothing of the same batch follows."""

    batch: SingularBatch
    concluding: bool


class BatchSource(Protocol):
    """The stages before: channels and their batches in the L1 block being read."""

    def pull(self) -> SingularBatch | SpanBatch | Need | Flow:
        """The next batch; OUT_OF_DATA when the L1 block is used up."""

    def skip(self) -> Need | None:
        """Throws away all batches of the L1 block; None when it is used up."""

    def flush(self) -> None:
        """Forgets the channel being read and the one being put together."""


Outcome = Accepted | Need | NeedReset | Flow


class StageParts(NamedTuple):
    """What a batch stage works with."""

    config: RollupConfig
    checks: BatchChecks
    epochs: Epochs
    safe_chain: SafeChain
    source: BatchSource
    trace: Trace
    span_overlap_check: bool


class SpanRest:
    """The blocks of an accepted span that were not given out yet."""

    def __init__(self, config: RollupConfig, epochs: Epochs, trace: Trace) -> None:
        self._block_time = config.block_time
        self._epochs = epochs
        self._trace = trace
        self._cursor: SpanCursor | None = None

    def hold(self, cursor: SpanCursor) -> None:
        """Takes the blocks from the cursor on."""
        self._cursor = cursor

    def clear(self) -> None:
        self._cursor = None

    def pop(self, parent: L2BlockRef) -> Accepted | None:
        """The next block if it fits on the parent; otherwise the rest is thrown away (X4, X6)."""
        cursor = self._cursor
        if cursor is None:
            return None
        following = parent.timestamp + self._block_time
        if cursor.timestamp != following:
            self._cursor = None
            self._trace.note(Effect.DISCARDED, Why.SPAN_REST(timestamp=cursor.timestamp, next=following))
            return None
        block = cursor.pop()
        origin = None if block is None else self._epochs.ref(block.epoch_number)
        if block is None or origin is None:
            raise CriticalError(f"a block of an accepted span at time {following} has no L1 origin that is known")
        if not cursor.left:
            self._cursor = None
        batch = SingularBatch(parent.hash, origin.number, origin.hash, block.timestamp, block.transactions)
        return Accepted(batch, self._cursor is None)


class BatchStages(ABC):
    """Base of the two."""

    def __init__(self, parts: StageParts) -> None:
        self.rest = SpanRest(parts.config, parts.epochs, parts.trace)
        self.waiting: Reason | None = None
        self._parts = parts

    def _empty_batch(self, parent: L2BlockRef, origin: L1BlockRef, out_of_data: bool) -> Accepted | None:
        config = self._parts.config
        batch = self._parts.epochs.empty_batch(parent, origin, out_of_data, config.seq_window_size, config.block_time)
        return None if batch is None else Accepted(batch, True)

    @abstractmethod
    def next(self, parent: L2BlockRef, origin: L1Block) -> Outcome:
        """One step: a block to build on `parent`, a need, or how to go on. `origin` is the L1 block being read."""

    def switched(self) -> int:
        """Forgets all batches, for another stage takes over; how many were lost."""
        self.rest.clear()
        return 0

    def flush(self) -> None:
        """Forgets the span and, before it, the channels (E5b)."""
        self.rest.clear()
        self._parts.source.flush()
