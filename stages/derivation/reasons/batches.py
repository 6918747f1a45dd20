"""Reasons of the checks of singular and span batches, of the batch stages and the attributes queue."""

from rollup_node.stages.derivation.reasons.reason import Reason, reason
from rollup_node.stages.protocol.types import Hash


@reason("V1", "batch", "no L1 block is known")
class L1WindowEmpty(Reason, frozen=True): ...


@reason("V2", "batch", "timestamp {timestamp} is ahead of the next, {next}")
class TimestampAhead(Reason, frozen=True):
    timestamp: int
    next: int


@reason("V3", "batch", "timestamp {timestamp} is before the next, {next}")
class TimestampPast(Reason, frozen=True):
    timestamp: int
    next: int


@reason("V4", "batch", "parent hash {got}, expected {expected}")
class ParentHashMismatch(Reason, frozen=True):
    got: Hash
    expected: Hash


@reason("V5", "batch", "epoch {epoch} was included in {inclusion}, more than {window} blocks later")
class SequencingWindowExpired(Reason, frozen=True):
    epoch: int
    inclusion: int
    window: int


@reason("V6", "batch", "epoch {epoch} is before {first}")
class EpochTooOld(Reason, frozen=True):
    epoch: int
    first: int


@reason("V8", "batch", "epoch {epoch} is not known yet")
class EpochUnknown(Reason, frozen=True):
    epoch: int


@reason("V9", "batch", "epoch {epoch} is not {first} or the one after")
class EpochTooNew(Reason, frozen=True):
    epoch: int
    first: int


@reason("V10", "batch", "epoch hash {got}, expected {expected}")
class EpochHashMismatch(Reason, frozen=True):
    got: Hash
    expected: Hash


@reason("V11", "batch", "timestamp {timestamp} is before its L1 origin's, {origin}")
class TimestampBeforeOrigin(Reason, frozen=True):
    timestamp: int
    origin: int


@reason("V12", "batch", "transactions in the activation block of time {timestamp}")
class ActivationBlockNotEmpty(Reason, frozen=True):
    timestamp: int


@reason("V13", "batch", "timestamp {timestamp} is beyond the drift bound {bound} and has transactions")
class DriftExceeded(Reason, frozen=True):
    timestamp: int
    bound: int


@reason("V13", "batch", "empty at {timestamp}, beyond {bound}, though L1 time {next} allows the next epoch")
class DriftEpochNotAdvanced(Reason, frozen=True):
    timestamp: int
    bound: int
    next: int


@reason("V13", "batch", "empty at {timestamp}, beyond {bound}; the next L1 block is not known yet")
class DriftUndecidable(Reason, frozen=True):
    timestamp: int
    bound: int


@reason("V14", "batch", "transaction {index} is empty")
class TransactionEmpty(Reason, frozen=True):
    index: int


@reason("V14", "batch", "transaction {index} is a deposit")
class TransactionIsDeposit(Reason, frozen=True):
    index: int


@reason("V14", "batch", "transaction {index} sets code before set-code transactions are allowed")
class SetCodeNotAllowed(Reason, frozen=True):
    index: int


@reason("V14", "batch", "transaction {index} is post-exec before such transactions are allowed")
class PostExecNotAllowed(Reason, frozen=True):
    index: int


@reason("PX2", "batch", "start epoch {epoch} is not known yet")
class SpanStartEpochUnknown(Reason, frozen=True):
    epoch: int


@reason("PX3", "batch", "span batch in an epoch of time {time}, before span batches are allowed")
class SpanEpochNotAllowed(Reason, frozen=True):
    time: int


@reason("PX4", "batch", "starts at {timestamp}, ahead of the next, {next}")
class SpanAhead(Reason, frozen=True):
    timestamp: int
    next: int


@reason("PX5", "batch", "ends at {timestamp}, before the next, {next}")
class SpanPast(Reason, frozen=True):
    timestamp: int
    next: int


@reason("PX6a", "batch", "starts at {timestamp}, between the safe head's {safe} and the next, {next}")
class SpanStartBetweenBlocks(Reason, frozen=True):
    timestamp: int
    safe: int
    next: int


@reason("PX6b", "batch", "starts at {timestamp}, not a whole number of blocks before {safe}")
class SpanMisaligned(Reason, frozen=True):
    timestamp: int
    safe: int


@reason("PX6c", "batch", "its parent, L2 block {number}, is unavailable")
class SpanParentUnavailable(Reason, frozen=True):
    number: int


@reason("PX7", "batch", "parent check {got} is not of block {expected}")
class SpanParentMismatch(Reason, frozen=True):
    got: bytes
    expected: Hash


@reason("PX8", "batch", "start epoch {epoch} was included in {inclusion}, more than {window} blocks later")
class SpanWindowExpired(Reason, frozen=True):
    epoch: int
    inclusion: int
    window: int


@reason("PX9", "batch", "start epoch {epoch} skips epochs after its parent's, {parent_epoch}")
class SpanEpochTooNew(Reason, frozen=True):
    epoch: int
    parent_epoch: int


@reason("PX10", "batch", "origin check {got} is not of L1 block {expected}")
class SpanOriginMismatch(Reason, frozen=True):
    got: bytes
    expected: Hash


@reason("PX10", "batch", "last epoch {epoch} is not among the known L1 blocks")
class SpanOriginUnknown(Reason, frozen=True):
    epoch: int


@reason("PX11", "batch", "start epoch {epoch} is before its parent's, {parent_epoch}")
class SpanEpochTooOld(Reason, frozen=True):
    epoch: int
    parent_epoch: int


@reason("FU1", "batch", "block {index} has epoch {epoch}, before the safe head's, {safe_epoch}")
class SpanBlockEpochTooOld(Reason, frozen=True):
    index: int
    epoch: int
    safe_epoch: int


@reason("FU2", "batch", "block {index} has epoch {epoch}, not among the known L1 blocks")
class SpanBlockEpochUnknown(Reason, frozen=True):
    index: int
    epoch: int


@reason("FU7", "batch", "L2 block {number}, which it overlaps, is unavailable")
class OverlapBlockUnavailable(Reason, frozen=True):
    number: int


@reason("FU7", "batch", "{got} transactions for L2 block {number}, which has {expected}")
class OverlapCountMismatch(Reason, frozen=True):
    number: int
    got: int
    expected: int


@reason("FU7", "batch", "transactions differ from those of L2 block {number}")
class OverlapTransactionsMismatch(Reason, frozen=True):
    number: int


@reason("FU7", "batch", "epoch {got} for L2 block {number}, which has {expected}")
class OverlapEpochMismatch(Reason, frozen=True):
    number: int
    got: int
    expected: int


@reason("X2", "batch", "epoch {epoch} of its first new block is before the safe head's, {safe_epoch}")
class NewBlockEpochTooOld(Reason, frozen=True):
    epoch: int
    safe_epoch: int


@reason("X3", "batch", "epoch {epoch} of its new blocks is not among the known L1 blocks")
class NewBlockEpochUnknown(Reason, frozen=True):
    epoch: int


@reason("X6", "batch", "the pending span continues at {timestamp}, but the next block is at {next}")
class PendingSpanMismatch(Reason, frozen=True):
    timestamp: int
    next: int


@reason("E6", "pipeline", "the safe head's origin {parent_origin} does not fit the first epoch {first}")
class SafeOriginMismatch(Reason, frozen=True):
    parent_origin: str
    first: str


@reason("BQ7", "batch", "past in the batch queue: {cause}")
class QueuedBatchPast(Reason, frozen=True):
    cause: str


@reason("AQ2", "pipeline", "{error}")
class L1OriginInvalid(Reason, frozen=True):
    error: str


@reason("AQ3", "channel", "an invalid payload was replaced by its deposits: span and channels are flushed")
class PayloadReplacedByDeposits(Reason, frozen=True): ...


@reason("PS3", "pipeline", "{frames} frames, {channels} channels and {batches} batches at the fork")
class StagesReplaced(Reason, frozen=True):
    frames: int
    channels: int
    batches: int
