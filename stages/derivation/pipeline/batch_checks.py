"""The judgement of batches against the safe head, the L1 window and the safe chain (derivation-rules 13 to 16).

Each function follows the order of its section: the first test that does not pass decides."""

from collections.abc import Iterable
from enum import Enum
from operator import itemgetter
from typing import NamedTuple

from rollup_node.stages.derivation.codec.batches import SingularBatch, SpanBatch, SpanCursor
from rollup_node.stages.derivation.pipeline.l1_origins import Epochs
from rollup_node.stages.derivation.pipeline.outputs import NeedL2Blocks
from rollup_node.stages.derivation.pipeline.overlap_blocks import SafeBlock, SafeChain, transactions_digest
from rollup_node.stages.derivation.reasons.reasons import Reason, Why
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.deposits import DEPOSIT_TYPE
from rollup_node.stages.protocol.forks.schedule import ForkSchedule
from rollup_node.stages.protocol.types import U64_MASK, L1BlockRef, L2BlockRef

SET_CODE_TYPE, POST_EXEC_TYPE = 0x04, 0x7D
_JUDGED_TYPES = frozenset((DEPOSIT_TYPE, SET_CODE_TYPE, POST_EXEC_TYPE))
_TYPE = itemgetter(0)


class Judgement(Enum):
    """What becomes of a batch."""

    ACCEPT = "accept"
    DROP = "drop"
    UNDECIDED = "undecided"
    FUTURE = "future"
    PAST = "past"


class Verdict(NamedTuple):
    """A judgement, and why if the batch is not accepted."""

    judgement: Judgement
    reason: Reason | None = None


ACCEPTED = Verdict(Judgement.ACCEPT)


def _drop(reason: Reason) -> Verdict:
    return Verdict(Judgement.DROP, reason)


def _undecided(reason: Reason) -> Verdict:
    return Verdict(Judgement.UNDECIDED, reason)


def transaction_refusal(
    schedule: ForkSchedule, transactions: Iterable[bytes], timestamp: int, post_exec: bool = True
) -> Reason | None:
    """Why a batch with these transactions for a block of that time is dropped (V14)."""
    for index, transaction in enumerate(transactions):
        if transaction and transaction[0] not in _JUDGED_TYPES:
            continue
        if not transaction:
            return Why.TRANSACTION_EMPTY(index=index)
        kind, rules = transaction[0], schedule.l2(timestamp)
        if kind == DEPOSIT_TYPE:
            return Why.TRANSACTION_DEPOSIT(index=index)
        if kind == SET_CODE_TYPE and not rules.set_code_transactions:
            return Why.TRANSACTION_SET_CODE(index=index)
        if kind == POST_EXEC_TYPE and post_exec and not rules.post_exec_transactions:
            return Why.TRANSACTION_POST_EXEC(index=index)
    return None


class BatchChecks:
    """The checks with a chain's constants. `inclusion` is the L1 block at which the batch was read."""

    def __init__(self, config: RollupConfig, schedule: ForkSchedule, safe_chain: SafeChain) -> None:
        self._config = config
        self._schedule = schedule
        self._safe_chain = safe_chain

    # --- singular batches (13) -------------------------------------------------------------------------------------

    def singular(self, batch: SingularBatch, epochs: Epochs, safe: L2BlockRef, inclusion: L1BlockRef) -> Verdict:
        """V1 to V15."""
        if not epochs:
            return _undecided(Why.NO_EPOCHS())
        verdict = self._time(batch.timestamp, safe, inclusion)
        if verdict is not None:
            return verdict
        if batch.parent_hash != safe.hash:
            return _drop(Why.PARENT_HASH(got=batch.parent_hash, expected=safe.hash))
        origin = self._singular_origin(batch, epochs, inclusion)
        if isinstance(origin, Verdict):
            return origin
        if batch.timestamp < origin.timestamp:
            return _drop(Why.TIME_BEFORE_ORIGIN(timestamp=batch.timestamp, origin=origin.timestamp))
        if batch.transactions and self._keeps_users_out(batch.timestamp):
            return _drop(Why.ACTIVATION_FILLED(timestamp=batch.timestamp))
        advanced = origin.number != epochs.first_number
        empty = not batch.transactions
        verdict = self._drift(batch.timestamp, empty, advanced, origin, epochs)
        return verdict or self._transactions(batch.transactions, batch.timestamp, True) or ACCEPTED

    def _time(self, timestamp: int, safe: L2BlockRef, inclusion: L1BlockRef) -> Verdict | None:
        """V2, V3."""
        following = safe.timestamp + self._config.block_time
        if timestamp == following:
            return None
        strict = self._schedule.l1(inclusion.timestamp).strict_batch_times
        if timestamp > following:
            judgement = Judgement.DROP if strict else Judgement.FUTURE
            return Verdict(judgement, Why.TIME_AHEAD(timestamp=timestamp, next=following))
        judgement = Judgement.PAST if strict else Judgement.DROP
        return Verdict(judgement, Why.TIME_OLD(timestamp=timestamp, next=following))

    def _singular_origin(self, batch: SingularBatch, epochs: Epochs, inclusion: L1BlockRef) -> L1BlockRef | Verdict:
        """V5 to V10."""
        number, first, window = batch.epoch_number, epochs.first_number, self._config.seq_window_size
        if (number + window) & U64_MASK < inclusion.number:
            return _drop(Why.WINDOW(epoch=number, inclusion=inclusion.number, window=window))
        if number < first:
            return _drop(Why.EPOCH_OLD(epoch=number, first=first))
        if number > first + 1:
            return _drop(Why.EPOCH_AHEAD(epoch=number, first=first))
        origin = epochs.ref(number)
        if origin is None:
            return _undecided(Why.EPOCH_UNKNOWN(epoch=number))
        if batch.epoch_hash != origin.hash:
            return _drop(Why.EPOCH_HASH(got=batch.epoch_hash, expected=origin.hash))
        return origin

    def _keeps_users_out(self, timestamp: int) -> bool:
        activations = self._schedule.activations(timestamp)
        return bool(activations) and any(activation.user_transactions_refused for activation in activations)

    def _drift(self, timestamp: int, empty: bool, advanced: bool, origin: L1BlockRef, epochs: Epochs) -> Verdict | None:
        """V13 and FU5: how far a block's time may run ahead of its L1 origin's."""
        bound = origin.timestamp + self._schedule.epoch(origin.timestamp).max_sequencer_drift
        if timestamp <= bound:
            return None
        if not empty:
            return _drop(Why.DRIFT(timestamp=timestamp, bound=bound))
        if advanced:
            return None
        following = epochs.ref(origin.number + 1)
        if following is None:
            return _undecided(Why.DRIFT_UNKNOWN(timestamp=timestamp, bound=bound))
        if timestamp >= following.timestamp:
            return _drop(Why.DRIFT_EPOCH(timestamp=timestamp, bound=bound, next=following.timestamp))
        return None

    def _transactions(self, transactions: tuple[bytes, ...], timestamp: int, post_exec: bool) -> Verdict | None:
        """V14 and FU6; the latter does not look for post-exec transactions."""
        if all(transactions) and _JUDGED_TYPES.isdisjoint(map(_TYPE, transactions)):
            return None
        reason = transaction_refusal(self._schedule, transactions, timestamp, post_exec)
        return None if reason is None else _drop(reason)

    # --- span batches, first part (14) -----------------------------------------------------------------------------

    def span_prefix(
        self, span: SpanBatch, epochs: Epochs, safe: L2BlockRef, inclusion: L1BlockRef
    ) -> Verdict | NeedL2Blocks:
        """PX1 to PX12."""
        if not epochs:
            return _undecided(Why.NO_EPOCHS())
        verdict = self._span_fork(span, epochs) or self._span_time(span, safe, inclusion)
        if verdict is not None:
            return verdict
        parent = self._span_parent(span, safe)
        if not isinstance(parent, L2BlockRef):
            return parent
        return self._span_anchors(span, parent, epochs, inclusion) or ACCEPTED

    def _span_fork(self, span: SpanBatch, epochs: Epochs) -> Verdict | None:
        """PX2, PX3."""
        origin: L1BlockRef | None = epochs.first
        if span.first_epoch == epochs.first_number + 1:
            origin = epochs.ref(span.first_epoch)
        if origin is None:
            return _undecided(Why.SPAN_NEXT_UNKNOWN(epoch=span.first_epoch))
        if not self._schedule.epoch(origin.timestamp).span_batches:
            return _drop(Why.SPAN_BEFORE_FORK(time=origin.timestamp))
        return None

    def _span_time(self, span: SpanBatch, safe: L2BlockRef, inclusion: L1BlockRef) -> Verdict | None:
        """PX4 to PX6b."""
        following = safe.timestamp + self._config.block_time
        start, end = span.first_timestamp, span.last_timestamp
        if start > following:
            strict = self._schedule.l1(inclusion.timestamp).strict_batch_times
            reason = Why.SPAN_AHEAD(timestamp=start, next=following)
            return Verdict(Judgement.DROP if strict else Judgement.FUTURE, reason)
        if end < following:
            strict = self._schedule.l1(inclusion.timestamp).strict_batch_times
            reason = Why.SPAN_OLD(timestamp=end, next=following)
            return Verdict(Judgement.PAST if strict else Judgement.DROP, reason)
        if start == following:
            return None
        if start > safe.timestamp:
            return _drop(Why.SPAN_BETWEEN(timestamp=start, safe=safe.timestamp, next=following))
        if (safe.timestamp - start) % self._config.block_time:
            return _drop(Why.SPAN_MISALIGNED(timestamp=start, safe=safe.timestamp))
        return None

    def overlap(self, span: SpanBatch, safe: L2BlockRef) -> int:
        """How many blocks of the safe chain the span goes over again."""
        following = safe.timestamp + self._config.block_time
        return max(0, following - span.first_timestamp) // self._config.block_time

    def _span_parent(self, span: SpanBatch, safe: L2BlockRef) -> L2BlockRef | Verdict | NeedL2Blocks:
        """PX6c. A number below genesis is of no block; nothing need be asked for it."""
        overlap = self.overlap(span, safe)
        if not overlap:
            return safe
        number = safe.number - overlap
        found: SafeBlock | NeedL2Blocks | None = None
        if number >= self._config.genesis.l2.number:
            found = self._safe_chain.find(number, safe.number)
        if found is None:
            return _undecided(Why.SPAN_NO_PARENT(number=number))
        return found.ref if isinstance(found, SafeBlock) else found

    def _span_anchors(
        self, span: SpanBatch, parent: L2BlockRef, epochs: Epochs, inclusion: L1BlockRef
    ) -> Verdict | None:
        """PX7 to PX11."""
        start, window = span.first_epoch, self._config.seq_window_size
        if span.parent_check != parent.hash[:20]:
            return _drop(Why.SPAN_PARENT(got=span.parent_check, expected=parent.hash))
        if (start + window) & U64_MASK < inclusion.number:
            return _drop(Why.SPAN_WINDOW(epoch=start, inclusion=inclusion.number, window=window))
        if start > parent.l1_origin.number + 1:
            return _drop(Why.SPAN_EPOCH_AHEAD(epoch=start, parent_epoch=parent.l1_origin.number))
        last = epochs.ref(span.last_epoch)
        if last is None:
            return _undecided(Why.SPAN_ORIGIN_UNKNOWN(epoch=span.last_epoch))
        if span.origin_check != last.hash[:20]:
            return _drop(Why.SPAN_ORIGIN_CHECK(got=span.origin_check, expected=last.hash))
        if start < parent.l1_origin.number:
            return _drop(Why.SPAN_EPOCH_OLD(epoch=start, parent_epoch=parent.l1_origin.number))
        return None

    # --- span batches, in full (15) --------------------------------------------------------------------------------

    def span_full(
        self, span: SpanBatch, epochs: Epochs, safe: L2BlockRef, inclusion: L1BlockRef
    ) -> Verdict | NeedL2Blocks:
        """The first part, then FU1 to FU8."""
        verdict = self.span_prefix(span, epochs, safe, inclusion)
        if verdict is not ACCEPTED:
            return verdict
        parent = self._span_parent(span, safe)
        if not isinstance(parent, L2BlockRef):
            return parent
        return self._new_blocks(span, epochs, safe, parent) or self.span_overlap(span, safe)

    def _new_blocks(self, span: SpanBatch, epochs: Epochs, safe: L2BlockRef, parent: L2BlockRef) -> Verdict | None:
        """FU1 to FU6 for each block after the safe head."""
        previous_epoch = parent.l1_origin.number
        lowest = epochs.first_number
        for index, block in enumerate(span.blocks()):
            epoch, advanced = block.epoch_number, block.epoch_number != previous_epoch
            if not index:
                advanced = epoch == previous_epoch + 1
            previous_epoch = epoch
            if block.timestamp <= safe.timestamp:
                continue
            if epoch < safe.l1_origin.number:
                return _drop(Why.FULL_EPOCH_OLD(index=index, epoch=epoch, safe_epoch=safe.l1_origin.number))
            origin = epochs.ref(epoch)
            if origin is None or epoch < lowest:
                return _drop(Why.FULL_EPOCH_UNKNOWN(index=index, epoch=epoch))
            lowest = epoch
            if block.timestamp < origin.timestamp:
                return _drop(Why.TIME_BEFORE_ORIGIN(timestamp=block.timestamp, origin=origin.timestamp))
            verdict = self._drift(block.timestamp, not block.transactions, advanced, origin, epochs)
            verdict = verdict or self._transactions(block.transactions, block.timestamp, False)
            if verdict is not None:
                return verdict
        return None

    def span_overlap(self, span: SpanBatch, safe: L2BlockRef) -> Verdict | NeedL2Blocks:
        """FU7: the part before the next block must be what the safe chain has."""
        overlap = self.overlap(span, safe)
        cursor = SpanCursor(span)
        for number in range(safe.number - overlap + 1, safe.number + 1):
            expected = self._safe_chain.find(number, safe.number)
            if isinstance(expected, NeedL2Blocks):
                return expected
            if expected is None:
                return _undecided(Why.OVERLAP_MISSING(number=number))
            block = cursor.pop()
            assert block is not None
            count = len(block.transactions)
            if count != expected.users:
                return _drop(Why.OVERLAP_COUNT(number=number, got=count, expected=expected.users))
            if transactions_digest(block.transactions) != expected.digest:
                return _drop(Why.OVERLAP_TRANSACTIONS(number=number))
            epoch = expected.ref.l1_origin.number
            if block.epoch_number != epoch:
                return _drop(Why.OVERLAP_EPOCH(number=number, got=block.epoch_number, expected=epoch))
        return ACCEPTED

    # --- the blocks after the safe head (16) -----------------------------------------------------------------------

    def extract(self, span: SpanBatch, epochs: Epochs, safe: L2BlockRef) -> SpanCursor | Reason:
        """A cursor before the first block after the safe head, or why the span cannot be used (X1 to X3). Epochs only
        rise within a span, so that the first new block and the last speak for all."""
        cursor = SpanCursor(span)
        while cursor.left and cursor.timestamp <= safe.timestamp:
            cursor.pop()
        epoch = cursor.next_epoch
        if epoch < safe.l1_origin.number:
            return Why.EXTRACT_EPOCH_OLD(epoch=epoch, safe_epoch=safe.l1_origin.number)
        for needed in (epoch, span.last_epoch):
            if epochs.block(needed) is None:
                return Why.EXTRACT_EPOCH_UNKNOWN(epoch=needed)
        return cursor
