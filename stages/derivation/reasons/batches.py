"""Reasons of the checks of singular and span batches, of the batch stages and the attributes queue."""

from rollup_node.stages.derivation.reasons.reason import ReasonKind, declare

L1WindowEmpty = ReasonKind[()]("V1", "batch", "no L1 block is known")
TimestampAhead = ReasonKind[int, int]("V2", "batch", "timestamp {timestamp} is ahead of the next, {next}")
TimestampPast = ReasonKind[int, int]("V3", "batch", "timestamp {timestamp} is before the next, {next}")
ParentHashMismatch = ReasonKind[bytes, bytes]("V4", "batch", "parent hash {got}, expected {expected}")
SequencingWindowExpired = ReasonKind[int, int, int](
    "V5", "batch", "epoch {epoch} was included in {inclusion}, more than {window} blocks later"
)
EpochTooOld = ReasonKind[int, int]("V6", "batch", "epoch {epoch} is before {first}")
EpochUnknown = ReasonKind[int]("V8", "batch", "epoch {epoch} is not known yet")
EpochTooNew = ReasonKind[int, int]("V9", "batch", "epoch {epoch} is not {first} or the one after")
EpochHashMismatch = ReasonKind[bytes, bytes]("V10", "batch", "epoch hash {got}, expected {expected}")
TimestampBeforeOrigin = ReasonKind[int, int](
    "V11", "batch", "timestamp {timestamp} is before its L1 origin's, {origin}"
)
ActivationBlockNotEmpty = ReasonKind[int]("V12", "batch", "transactions in the activation block of time {timestamp}")
DriftExceeded = ReasonKind[int, int](
    "V13", "batch", "timestamp {timestamp} is beyond the drift bound {bound} and has transactions"
)
DriftEpochNotAdvanced = ReasonKind[int, int, int](
    "V13", "batch", "empty at {timestamp}, beyond {bound}, though L1 time {next} allows the next epoch"
)
DriftUndecidable = ReasonKind[int, int](
    "V13", "batch", "empty at {timestamp}, beyond {bound}; the next L1 block is not known yet"
)
TransactionEmpty = ReasonKind[int]("V14", "batch", "transaction {index} is empty")
TransactionIsDeposit = ReasonKind[int]("V14", "batch", "transaction {index} is a deposit")
SetCodeNotAllowed = ReasonKind[int](
    "V14", "batch", "transaction {index} sets code before set-code transactions are allowed"
)
PostExecNotAllowed = ReasonKind[int](
    "V14", "batch", "transaction {index} is post-exec before such transactions are allowed"
)
SpanStartEpochUnknown = ReasonKind[int]("PX2", "batch", "start epoch {epoch} is not known yet")
SpanEpochNotAllowed = ReasonKind[int](
    "PX3", "batch", "span batch in an epoch of time {time}, before span batches are allowed"
)
SpanAhead = ReasonKind[int, int]("PX4", "batch", "starts at {timestamp}, ahead of the next, {next}")
SpanPast = ReasonKind[int, int]("PX5", "batch", "ends at {timestamp}, before the next, {next}")
SpanStartBetweenBlocks = ReasonKind[int, int, int](
    "PX6a", "batch", "starts at {timestamp}, between the safe head's {safe} and the next, {next}"
)
SpanMisaligned = ReasonKind[int, int](
    "PX6b", "batch", "starts at {timestamp}, not a whole number of blocks before {safe}"
)
SpanParentUnavailable = ReasonKind[int]("PX6c", "batch", "its parent, L2 block {number}, is unavailable")
SpanParentMismatch = ReasonKind[bytes, bytes]("PX7", "batch", "parent check {got} is not of block {expected}")
SpanWindowExpired = ReasonKind[int, int, int](
    "PX8", "batch", "start epoch {epoch} was included in {inclusion}, more than {window} blocks later"
)
SpanEpochTooNew = ReasonKind[int, int](
    "PX9", "batch", "start epoch {epoch} skips epochs after its parent's, {parent_epoch}"
)
SpanOriginMismatch = ReasonKind[bytes, bytes]("PX10", "batch", "origin check {got} is not of L1 block {expected}")
SpanOriginUnknown = ReasonKind[int]("PX10", "batch", "last epoch {epoch} is not among the known L1 blocks")
SpanEpochTooOld = ReasonKind[int, int]("PX11", "batch", "start epoch {epoch} is before its parent's, {parent_epoch}")
SpanBlockEpochTooOld = ReasonKind[int, int, int](
    "FU1", "batch", "block {index} has epoch {epoch}, before the safe head's, {safe_epoch}"
)
SpanBlockEpochUnknown = ReasonKind[int, int](
    "FU2", "batch", "block {index} has epoch {epoch}, not among the known L1 blocks"
)
OverlapBlockUnavailable = ReasonKind[int]("FU7", "batch", "L2 block {number}, which it overlaps, is unavailable")
OverlapCountMismatch = ReasonKind[int, int, int](
    "FU7", "batch", "{got} transactions for L2 block {number}, which has {expected}"
)
OverlapTransactionsMismatch = ReasonKind[int]("FU7", "batch", "transactions differ from those of L2 block {number}")
OverlapEpochMismatch = ReasonKind[int, int, int](
    "FU7", "batch", "epoch {got} for L2 block {number}, which has {expected}"
)
NewBlockEpochTooOld = ReasonKind[int, int](
    "X2", "batch", "epoch {epoch} of its first new block is before the safe head's, {safe_epoch}"
)
NewBlockEpochUnknown = ReasonKind[int](
    "X3", "batch", "epoch {epoch} of its new blocks is not among the known L1 blocks"
)
PendingSpanMismatch = ReasonKind[int, int](
    "X6", "batch", "the pending span continues at {timestamp}, but the next block is at {next}"
)
SafeOriginMismatch = ReasonKind[str, str](
    "E6", "pipeline", "the safe head's origin {parent_origin} does not fit the first epoch {first}"
)
QueuedBatchPast = ReasonKind[str]("BQ7", "batch", "past in the batch queue: {cause}")
L1OriginInvalid = ReasonKind[str]("AQ2", "pipeline", "{error}")
PayloadReplacedByDeposits = ReasonKind[()](
    "AQ3", "channel", "an invalid payload was replaced by its deposits: span and channels are flushed"
)
StagesReplaced = ReasonKind[int, int, int](
    "PS3", "pipeline", "{frames} frames, {channels} channels and {batches} batches at the fork"
)

declare(vars())
