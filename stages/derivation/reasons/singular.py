"""Reasons of the checks of singular batches; blocks of a span share those of time, drift and transactions."""

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
