"""The validity of singular batches."""

from rollup_node.stages.derivation.codec.batches import SingularBatch
from rollup_node.stages.derivation.pipeline.batch_checks import (
    ACCEPTED,
    BatchValidity,
    BatchVerdict,
    BlockChecks,
    drop,
    undecided,
)
from rollup_node.stages.derivation.pipeline.l1_origins import L1OriginWindow
from rollup_node.stages.derivation.reasons.singular import (
    ActivationBlockNotEmpty,
    EpochHashMismatch,
    EpochTooNew,
    EpochTooOld,
    EpochUnknown,
    L1WindowEmpty,
    ParentHashMismatch,
    SequencingWindowExpired,
    TimestampAhead,
    TimestampBeforeOrigin,
    TimestampPast,
)
from rollup_node.stages.protocol.types import U64_MASK, L1BlockRef, L2BlockRef


class SingularBatchChecks(BlockChecks):
    """The checks of a singular batch, and of each block of a span from Holocene on.

    `safe` is the safe head, `inclusion` the L1 block at which the batch was read."""

    def check(
        self, batch: SingularBatch, l1_window: L1OriginWindow, safe: L2BlockRef, inclusion: L1BlockRef
    ) -> BatchVerdict:
        """Check time, parent, epoch, activation block, drift and transactions of a batch, in this order [V1 to V15]."""
        if not l1_window:
            return undecided(L1WindowEmpty())
        verdict = self._time(batch.timestamp, safe, inclusion)
        if verdict is not None:
            return verdict
        if not self._is_parent(batch.parent_hash, safe):
            return drop(ParentHashMismatch(batch.parent_hash, safe.hash))
        origin = self._origin(batch, l1_window, inclusion)
        if isinstance(origin, BatchVerdict):
            return origin
        if batch.timestamp < origin.timestamp:
            return drop(TimestampBeforeOrigin(batch.timestamp, origin.timestamp))
        if batch.transactions and self._must_be_empty(batch.timestamp):
            return drop(ActivationBlockNotEmpty(batch.timestamp))
        # The window can start one epoch after the parent's; op-node compares with the window here, not with the parent.
        advances = origin.number != l1_window.first_number
        empty = not batch.transactions
        verdict = self._drift(batch.timestamp, empty, advances, origin, l1_window)
        return verdict or self._transactions(batch.transactions, batch.timestamp) or ACCEPTED

    def _time(self, timestamp: int, safe: L2BlockRef, inclusion: L1BlockRef) -> BatchVerdict | None:
        """Whether it is the next block; from Holocene on a future batch is dropped and an old one past [V2, V3]."""
        following = safe.timestamp + self._config.block_time
        if timestamp == following:
            return None
        strict = self._schedule.l1(inclusion.timestamp).strict_batch_times
        if timestamp > following:
            validity = BatchValidity.DROP if strict else BatchValidity.FUTURE
            return BatchVerdict(validity, TimestampAhead(timestamp, following))
        validity = BatchValidity.PAST if strict else BatchValidity.DROP
        return BatchVerdict(validity, TimestampPast(timestamp, following))

    def _origin(
        self, batch: SingularBatch, l1_window: L1OriginWindow, inclusion: L1BlockRef
    ) -> L1BlockRef | BatchVerdict:
        """Return the batch's L1 origin: the current epoch or the next, within the sequencing window [V5 to V10]."""
        number, first, window = batch.epoch_number, l1_window.first_number, self._config.seq_window_size
        if (number + window) & U64_MASK < inclusion.number:
            return drop(SequencingWindowExpired(number, inclusion.number, window))
        if number < first:
            return drop(EpochTooOld(number, first))
        if number > first + 1:
            return drop(EpochTooNew(number, first))
        origin = l1_window.ref(number)
        if origin is None:
            return undecided(EpochUnknown(number))
        if batch.epoch_hash != origin.hash:
            return drop(EpochHashMismatch(batch.epoch_hash, origin.hash))
        return origin

    def _must_be_empty(self, timestamp: int) -> bool:
        """Whether a fork that keeps user transactions out of its activation block activates at this time [V12]."""
        activations = self._schedule.activations(timestamp)
        return bool(activations) and any(activation.user_transactions_refused for activation in activations)
