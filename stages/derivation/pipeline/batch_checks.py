"""The validity of batches: singular ones, the blocks of spans, spans as a whole, and the extraction of their blocks."""

from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from hashlib import sha256
from operator import itemgetter
from typing import NamedTuple

from rollup_node.stages.derivation.codec.batches import SingularBatch, SpanBatch, SpanCursor
from rollup_node.stages.derivation.codec.packed import PackedTransactions, Transactions
from rollup_node.stages.derivation.pipeline.l1_origins import L1OriginWindow
from rollup_node.stages.derivation.pipeline.outputs import NeedL2Blocks
from rollup_node.stages.derivation.reasons import batches as reasons
from rollup_node.stages.derivation.reasons.reason import Reason
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.deposits import DEPOSIT_TYPE, is_deposit
from rollup_node.stages.protocol.forks.schedule import ForkSchedule
from rollup_node.stages.protocol.transactions import POST_EXEC, SET_CODE
from rollup_node.stages.protocol.types import U64_MASK, UNKNOWN_HASH, Hash, L1BlockRef, L2BlockContent, L2BlockRef

_RESTRICTED_TYPES = frozenset((DEPOSIT_TYPE, SET_CODE, POST_EXEC))
_TYPE = itemgetter(0)


class BatchValidity(Enum):
    """The result of a batch's validity checks, as op-node's BatchValidity."""

    ACCEPT = "accept"
    DROP = "drop"
    UNDECIDED = "undecided"
    FUTURE = "future"
    PAST = "past"


class BatchVerdict(NamedTuple):
    """The validity of a batch, and the reason unless it is accepted."""

    validity: BatchValidity
    reason: Reason | None = None


ACCEPTED = BatchVerdict(BatchValidity.ACCEPT)


def drop(reason: Reason) -> BatchVerdict:
    """Return the batch is invalid."""
    return BatchVerdict(BatchValidity.DROP, reason)


def undecided(reason: Reason) -> BatchVerdict:
    """Return the batch is undecided: an L1 or L2 block that the check needs is missing."""
    return BatchVerdict(BatchValidity.UNDECIDED, reason)


def transaction_rejection(schedule: ForkSchedule, transactions: Iterable[bytes], timestamp: int) -> Reason | None:
    """Return why a transaction drops a batch at this block time: empty, a deposit, a type too early [V14, FU6].

    Packed ones without a type that is refused at this time are not unpacked."""
    rules = schedule.l2(timestamp)
    refused: dict[int, Callable[[int], Reason]] = {DEPOSIT_TYPE: reasons.TransactionIsDeposit}
    if not rules.set_code_transactions:
        refused[SET_CODE] = reasons.SetCodeNotAllowed
    if not rules.post_exec_transactions:
        refused[POST_EXEC] = reasons.PostExecNotAllowed
    parts: Iterable[tuple[int, Iterable[bytes]]] = ((0, transactions),)
    if isinstance(transactions, PackedTransactions):
        parts = transactions.parts(frozenset(refused), cut=1)
    for first, part in parts:
        for index, transaction in enumerate(part, first):
            if not transaction:
                return reasons.TransactionEmpty(index)
            if transaction[0] in refused:
                return refused[transaction[0]](index)
    return None


PAGE = 64
"""Blocks of one request, at most."""
MAX_KEPT = 50_000


class OverlapBlock(NamedTuple):
    """A block of the safe chain; `users` is the number of transactions after its deposits, `digest` is over them."""

    ref: L2BlockRef
    users: int
    digest: Hash


def transactions_digest(transactions: Sequence[bytes] | PackedTransactions) -> Hash:
    """Return a sha256 that is equal for equal lists only."""
    digest = sha256()
    if isinstance(transactions, PackedTransactions):
        for piece in transactions.sizes_and_bytes():
            digest.update(piece)
        return digest.digest()
    for transaction in transactions:
        digest.update(len(transaction).to_bytes(8, "big"))
        digest.update(transaction)
    return digest.digest()


class OverlapBlocks:
    """Blocks by number. One that is unavailable is requested again only in the next check of a batch."""

    def __init__(self) -> None:
        self._blocks: dict[int, OverlapBlock] = {}
        self._unavailable: range = range(0)
        self._need: NeedL2Blocks | None = None

    def begin_check(self) -> None:
        """Begin a new check of batches: what was unavailable may be available now."""
        self._unavailable = range(0)
        if len(self._blocks) > MAX_KEPT:
            self._blocks.clear()

    def clear(self) -> None:
        """Forget the blocks: the safe chain has changed."""
        self._blocks.clear()
        self._unavailable, self._need = range(0), None

    def find(self, number: int, last: int) -> OverlapBlock | NeedL2Blocks | None:
        """Return the block; None if it is unavailable. What is missing is requested in pages, up to block `last`."""
        block = self._blocks.get(number)
        if block is not None:
            return block
        if number in self._unavailable:
            return None
        self._need = NeedL2Blocks(number, min(last, number + PAGE - 1))
        return self._need

    def add(self, first: int, last: int, blocks: Sequence[L2BlockContent] | None) -> bool:
        """Bring the blocks that are needed, or None if they are unavailable; False if they are not needed."""
        if self._need != NeedL2Blocks(first, last):
            return False
        numbers = range(first, last + 1)
        if blocks is None:
            self._unavailable = numbers
        elif [block.ref.number for block in blocks] != list(numbers):
            return False
        else:
            self._blocks.update((block.ref.number, _digested(block)) for block in blocks)
        self._need = None
        return True


def _digested(block: L2BlockContent) -> OverlapBlock:
    # As op-node does, skips as many leading transactions as there are deposits, wherever those stand [FU7].
    users = block.transactions[sum(map(is_deposit, block.transactions)) :]
    return OverlapBlock(block.ref, len(users), transactions_digest(users))


class BatchChecks:
    """The checks of batches with a chain's constants: singular ones, which are also the blocks of spans, and spans.

    `safe` is the safe head, `inclusion` the L1 block at which a batch was read. A check that needs blocks of the safe
    chain answers with the need and is made again when they are there. With `assume_parents` a block of unknown hash is
    the parent that a batch claims; a node knows all hashes."""

    def __init__(self, config: RollupConfig, overlap_blocks: OverlapBlocks, assume_parents: bool = False) -> None:
        self._config, self._schedule = config, config.schedule()
        self._overlap_blocks, self._assume_parents = overlap_blocks, assume_parents

    def _is_parent(self, claimed: bytes, parent: L2BlockRef) -> bool:
        """Whether a parent has the hash that a batch claims, or that begins with what a span claims [V4, PX7]."""
        if self._assume_parents and parent.hash == UNKNOWN_HASH:
            return True
        return parent.hash[: len(claimed)] == claimed

    def _drift(
        self, timestamp: int, empty: bool, advances: bool, origin: L1BlockRef, l1_window: L1OriginWindow
    ) -> BatchVerdict | None:
        """How far a block's time may be ahead of its L1 origin's; None if it passes.

        `empty`: without user transactions, `advances`: with another epoch than its parent [V13, FU5]."""
        bound = origin.timestamp + self._schedule.epoch(origin.timestamp).max_sequencer_drift
        if timestamp <= bound:
            return None
        if not empty:
            return drop(reasons.DriftExceeded(timestamp, bound))
        if advances:
            return None
        following = l1_window.ref(origin.number + 1)
        if following is None:
            return undecided(reasons.DriftUndecidable(timestamp, bound))
        if timestamp >= following.timestamp:
            return drop(reasons.DriftEpochNotAdvanced(timestamp, bound, following.timestamp))
        return None

    def _transactions(self, transactions: Transactions, timestamp: int) -> BatchVerdict | None:
        """Return the types of a block's transactions; None if they pass [V14, FU6]."""
        if (
            not isinstance(transactions, PackedTransactions)
            and all(transactions)
            and _RESTRICTED_TYPES.isdisjoint(map(_TYPE, transactions))
        ):
            return None
        reason = transaction_rejection(self._schedule, transactions, timestamp)
        return None if reason is None else drop(reason)

    def check(
        self, batch: SingularBatch, l1_window: L1OriginWindow, safe: L2BlockRef, inclusion: L1BlockRef
    ) -> BatchVerdict:
        """Check time, parent, epoch, activation block, drift and transactions of a batch, in this order [V1 to V15]."""
        if not l1_window:
            return undecided(reasons.L1WindowEmpty())
        verdict = self._time(batch.timestamp, safe, inclusion)
        if verdict is not None:
            return verdict
        if not self._is_parent(batch.parent_hash, safe):
            return drop(reasons.ParentHashMismatch(batch.parent_hash, safe.hash))
        origin = self._origin(batch, l1_window, inclusion)
        if isinstance(origin, BatchVerdict):
            return origin
        if batch.timestamp < origin.timestamp:
            return drop(reasons.TimestampBeforeOrigin(batch.timestamp, origin.timestamp))
        if batch.transactions and self._must_be_empty(batch.timestamp):
            return drop(reasons.ActivationBlockNotEmpty(batch.timestamp))
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
        if timestamp > following:
            return self._out_of_time(reasons.TimestampAhead(timestamp, following), inclusion, is_ahead=True)
        return self._out_of_time(reasons.TimestampPast(timestamp, following), inclusion)

    def _out_of_time(self, reason: Reason, inclusion: L1BlockRef, is_ahead: bool = False) -> BatchVerdict:
        if self._schedule.l1(inclusion.timestamp).strict_batch_times:
            return BatchVerdict(BatchValidity.DROP if is_ahead else BatchValidity.PAST, reason)
        return BatchVerdict(BatchValidity.FUTURE if is_ahead else BatchValidity.DROP, reason)

    def _origin(
        self, batch: SingularBatch, l1_window: L1OriginWindow, inclusion: L1BlockRef
    ) -> L1BlockRef | BatchVerdict:
        """Return the batch's L1 origin: the current epoch or the next, within the sequencing window [V5 to V10]."""
        number, first, window = batch.epoch_number, l1_window.first_number, self._config.seq_window_size
        if (number + window) & U64_MASK < inclusion.number:
            return drop(reasons.SequencingWindowExpired(number, inclusion.number, window))
        if number < first:
            return drop(reasons.EpochTooOld(number, first))
        if number > first + 1:
            return drop(reasons.EpochTooNew(number, first))
        origin = l1_window.ref(number)
        if origin is None:
            return undecided(reasons.EpochUnknown(number))
        if batch.epoch_hash != origin.hash:
            return drop(reasons.EpochHashMismatch(batch.epoch_hash, origin.hash))
        return origin

    def _must_be_empty(self, timestamp: int) -> bool:
        """Whether a fork that keeps user transactions out of its activation block activates at this time [V12]."""
        activations = self._schedule.activations(timestamp)
        return bool(activations) and any(activation.user_transactions_refused for activation in activations)

    def check_prefix(
        self, span: SpanBatch, l1_window: L1OriginWindow, safe: L2BlockRef, inclusion: L1BlockRef
    ) -> BatchVerdict | NeedL2Blocks:
        """Check a span's parent, times and origins; from Holocene on nothing else as a whole [PX1 to PX12]."""
        if not l1_window:
            return undecided(reasons.L1WindowEmpty())
        verdict = self._epoch_allows_spans(span, l1_window) or self._span_time(span, safe, inclusion)
        if verdict is not None:
            return verdict
        parent = self._parent(span, safe)
        if not isinstance(parent, L2BlockRef):
            return parent
        return self._parent_and_origins(span, parent, l1_window, inclusion) or ACCEPTED

    def _epoch_allows_spans(self, span: SpanBatch, l1_window: L1OriginWindow) -> BatchVerdict | None:
        """Delta by the time of the current epoch, or of the next one if the span starts there [PX2, PX3]."""
        origin: L1BlockRef | None = l1_window.first
        if span.first_epoch == l1_window.first_number + 1:
            origin = l1_window.ref(span.first_epoch)
        if origin is None:
            return undecided(reasons.SpanStartEpochUnknown(span.first_epoch))
        if not self._schedule.epoch(origin.timestamp).span_batches:
            return drop(reasons.SpanEpochNotAllowed(origin.timestamp))
        return None

    def _span_time(self, span: SpanBatch, safe: L2BlockRef, inclusion: L1BlockRef) -> BatchVerdict | None:
        """Whether it contains the next block and is aligned with the safe chain [PX4 to PX6b]."""
        following = safe.timestamp + self._config.block_time
        start, end = span.first_timestamp, span.last_timestamp
        if start > following:
            return self._out_of_time(reasons.SpanAhead(start, following), inclusion, is_ahead=True)
        if end < following:
            return self._out_of_time(reasons.SpanPast(end, following), inclusion)
        if start == following:
            return None
        if start > safe.timestamp:
            return drop(reasons.SpanStartBetweenBlocks(start, safe.timestamp, following))
        if (safe.timestamp - start) % self._config.block_time:
            return drop(reasons.SpanMisaligned(start, safe.timestamp))
        return None

    def _overlap(self, span: SpanBatch, safe: L2BlockRef) -> int:
        """Return the number of blocks of the safe chain that the span repeats."""
        following = safe.timestamp + self._config.block_time
        return max(0, following - span.first_timestamp) // self._config.block_time

    def _parent(self, span: SpanBatch, safe: L2BlockRef) -> L2BlockRef | BatchVerdict | NeedL2Blocks:
        """Return the parent of the span's first block [PX6, PX6c]."""
        overlap = self._overlap(span, safe)
        if not overlap:
            return safe
        number = safe.number - overlap
        result: OverlapBlock | NeedL2Blocks | None = None
        # A number below genesis is of no block: it need not be requested, and the span stays undecided.
        if number >= self._config.genesis.l2.number:
            result = self._overlap_blocks.find(number, safe.number)
        if result is None:
            return undecided(reasons.SpanParentUnavailable(number))
        return result.ref if isinstance(result, OverlapBlock) else result

    def _parent_and_origins(
        self, span: SpanBatch, parent: L2BlockRef, l1_window: L1OriginWindow, inclusion: L1BlockRef
    ) -> BatchVerdict | None:
        """Parent check, sequencing window, start epoch and origin check [PX7 to PX11]."""
        start, window = span.first_epoch, self._config.seq_window_size
        if not self._is_parent(span.parent_check, parent):
            return drop(reasons.SpanParentMismatch(span.parent_check, parent.hash))
        if (start + window) & U64_MASK < inclusion.number:
            return drop(reasons.SpanWindowExpired(start, inclusion.number, window))
        if start > parent.l1_origin.number + 1:
            return drop(reasons.SpanEpochTooNew(start, parent.l1_origin.number))
        last = l1_window.ref(span.last_epoch)
        if last is None:
            return undecided(reasons.SpanOriginUnknown(span.last_epoch))
        if span.origin_check != last.hash[:20]:
            return drop(reasons.SpanOriginMismatch(span.origin_check, last.hash))
        if start < parent.l1_origin.number:
            return drop(reasons.SpanEpochTooOld(start, parent.l1_origin.number))
        return None

    def check_full(
        self, span: SpanBatch, l1_window: L1OriginWindow, safe: L2BlockRef, inclusion: L1BlockRef
    ) -> BatchVerdict | NeedL2Blocks:
        """Return the verdict on a span with all its blocks: the prefix, each new block, the overlap [FU1 to FU8]."""
        verdict = self.check_prefix(span, l1_window, safe, inclusion)
        if verdict is not ACCEPTED:
            return verdict
        parent = self._parent(span, safe)
        if not isinstance(parent, L2BlockRef):
            return parent
        return self._new_blocks(span, l1_window, safe, parent) or self.check_overlap(span, safe)

    def _new_blocks(
        self, span: SpanBatch, l1_window: L1OriginWindow, safe: L2BlockRef, parent: L2BlockRef
    ) -> BatchVerdict | None:
        """Epoch, time, drift and transactions of each block after the safe head [FU1 to FU6]."""
        previous_epoch = parent.l1_origin.number
        lowest = l1_window.first_number
        for index, block in enumerate(span.blocks()):
            epoch, advances = block.epoch_number, block.epoch_number != previous_epoch
            if not index:
                advances = epoch == previous_epoch + 1
            previous_epoch = epoch
            if block.timestamp <= safe.timestamp:
                continue
            if epoch < safe.l1_origin.number:
                return drop(reasons.SpanBlockEpochTooOld(index, epoch, safe.l1_origin.number))
            origin = l1_window.ref(epoch)
            if origin is None or epoch < lowest:
                return drop(reasons.SpanBlockEpochUnknown(index, epoch))
            lowest = epoch
            if block.timestamp < origin.timestamp:
                return drop(reasons.TimestampBeforeOrigin(block.timestamp, origin.timestamp))
            verdict = self._drift(block.timestamp, not block.transactions, advances, origin, l1_window)
            verdict = verdict or self._transactions(block.transactions, block.timestamp)
            if verdict is not None:
                return verdict
        return None

    def check_overlap(self, span: SpanBatch, safe: L2BlockRef) -> BatchVerdict | NeedL2Blocks:
        """Return the verdict on the part of the span before the next block: it must repeat the safe chain [FU7, N1]."""
        overlap = self._overlap(span, safe)
        cursor = SpanCursor(span)
        for number in range(safe.number - overlap + 1, safe.number + 1):
            expected = self._overlap_blocks.find(number, safe.number)
            if isinstance(expected, NeedL2Blocks):
                return expected
            if expected is None:
                return undecided(reasons.OverlapBlockUnavailable(number))
            block = cursor.pop()
            assert block is not None
            count = len(block.transactions)
            if count != expected.users:
                return drop(reasons.OverlapCountMismatch(count, number, expected.users))
            if transactions_digest(block.transactions) != expected.digest:
                return drop(reasons.OverlapTransactionsMismatch(number))
            epoch = expected.ref.l1_origin.number
            if block.epoch_number != epoch:
                return drop(reasons.OverlapEpochMismatch(block.epoch_number, number, epoch))
        return ACCEPTED

    def extract(self, span: SpanBatch, l1_window: L1OriginWindow, safe: L2BlockRef) -> SpanCursor | Reason:
        """Return a cursor at the first block after the safe head, or why the span cannot be used [X1 to X3]."""
        cursor = SpanCursor(span)
        while cursor.left and cursor.timestamp <= safe.timestamp:
            cursor.pop()
        epoch = cursor.next_epoch
        if epoch < safe.l1_origin.number:
            return reasons.NewBlockEpochTooOld(epoch, safe.l1_origin.number)
        # Epochs only rise within a span, so the first new block and the last stand for all between them.
        for needed in (epoch, span.last_epoch):
            if l1_window.block(needed) is None:
                return reasons.NewBlockEpochUnknown(needed)
        return cursor
