"""The outcome of the validity checks of batches, and the checks that singular and span batches share."""

from collections.abc import Iterable
from enum import Enum
from operator import itemgetter
from typing import NamedTuple

from rollup_node.stages.derivation.codec.batches import SingularBatch
from rollup_node.stages.derivation.codec.packed import PackedTransactions, Transactions
from rollup_node.stages.derivation.pipeline.l1_origins import L1OriginWindow
from rollup_node.stages.derivation.reasons import batches as reasons
from rollup_node.stages.derivation.reasons.reason import Reason
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.deposits import DEPOSIT_TYPE
from rollup_node.stages.protocol.forks.schedule import ForkSchedule
from rollup_node.stages.protocol.types import U64_MASK, UNKNOWN_HASH, L1BlockRef, L2BlockRef

SET_CODE_TYPE, POST_EXEC_TYPE = 0x04, 0x7D
_RESTRICTED_TYPES = frozenset((DEPOSIT_TYPE, SET_CODE_TYPE, POST_EXEC_TYPE))
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
    """Return why a transaction drops a batch at this block time: empty, a deposit, a type too early [V14, FU6]."""
    if isinstance(transactions, PackedTransactions):
        return _packed_rejection(schedule, transactions, timestamp)
    return _rejection(schedule, enumerate(transactions), timestamp)


def _rejection(schedule: ForkSchedule, transactions: Iterable[tuple[int, bytes]], timestamp: int) -> Reason | None:
    for index, transaction in transactions:
        if transaction and transaction[0] not in _RESTRICTED_TYPES:
            continue
        if not transaction:
            return reasons.TransactionEmpty(index)
        kind, rules = transaction[0], schedule.l2(timestamp)
        if kind == DEPOSIT_TYPE:
            return reasons.TransactionIsDeposit(index)
        if kind == SET_CODE_TYPE and not rules.set_code_transactions:
            return reasons.SetCodeNotAllowed(index)
        if kind == POST_EXEC_TYPE and not rules.post_exec_transactions:
            return reasons.PostExecNotAllowed(index)
    return None


def _packed_rejection(schedule: ForkSchedule, transactions: PackedTransactions, timestamp: int) -> Reason | None:
    """Return the same of packed transactions; chunks without a type that is refused at this time are not unpacked."""
    rules = schedule.l2(timestamp)
    refused = {DEPOSIT_TYPE}
    if not rules.set_code_transactions:
        refused.add(SET_CODE_TYPE)
    if not rules.post_exec_transactions:
        refused.add(POST_EXEC_TYPE)
    for part in transactions.parts(frozenset(refused), cut=1):
        reason = _rejection(schedule, enumerate(part.transactions, part.first), timestamp)
        if reason is not None:
            return reason
    return None


class BlockChecks:
    """The checks of one L2 block, be it a singular batch or part of a span, with a chain's constants.

    With `assume_parents` a block of unknown hash is the parent that a batch claims; a node knows all hashes."""

    def __init__(self, config: RollupConfig, schedule: ForkSchedule, assume_parents: bool = False) -> None:
        self._config, self._schedule, self._assume_parents = config, schedule, assume_parents

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


class SingularBatchChecks(BlockChecks):
    """The checks of a singular batch, and of each block of a span from Holocene on.

    `safe` is the safe head, `inclusion` the L1 block at which the batch was read."""

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
        strict = self._schedule.l1(inclusion.timestamp).strict_batch_times
        if timestamp > following:
            validity = BatchValidity.DROP if strict else BatchValidity.FUTURE
            return BatchVerdict(validity, reasons.TimestampAhead(timestamp, following))
        validity = BatchValidity.PAST if strict else BatchValidity.DROP
        return BatchVerdict(validity, reasons.TimestampPast(timestamp, following))

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
