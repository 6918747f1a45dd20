"""Reasons of the checks of span batches, and of the extraction of their blocks."""

from rollup_node.stages.derivation.reasons.reason import Reason, reason
from rollup_node.stages.protocol.types import Hash


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
