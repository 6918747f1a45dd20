"""Reasons of the checks of singular and span batches, of the batch stages and the attributes queue."""

from rollup_node.stages.derivation.reasons.reason import ReasonKind

L1WindowEmpty = ReasonKind[()]("l1_window_empty", "V1", "batch", "no L1 block is known")
TimestampAhead = ReasonKind[int, int](
    "timestamp_ahead", "V2", "batch", "timestamp {timestamp} is ahead of the next, {next}"
)
TimestampPast = ReasonKind[int, int](
    "timestamp_past", "V3", "batch", "timestamp {timestamp} is before the next, {next}"
)
ParentHashMismatch = ReasonKind[bytes, bytes](
    "parent_hash_mismatch", "V4", "batch", "parent hash {got}, expected {expected}"
)
SequencingWindowExpired = ReasonKind[int, int, int](
    "sequencing_window_expired",
    "V5",
    "batch",
    "epoch {epoch} was included in {inclusion}, more than {window} blocks later",
)
EpochTooOld = ReasonKind[int, int]("epoch_too_old", "V6", "batch", "epoch {epoch} is before {first}")
EpochUnknown = ReasonKind[int]("epoch_unknown", "V8", "batch", "epoch {epoch} is not known yet")
EpochTooNew = ReasonKind[int, int]("epoch_too_new", "V9", "batch", "epoch {epoch} is not {first} or the one after")
EpochHashMismatch = ReasonKind[bytes, bytes](
    "epoch_hash_mismatch", "V10", "batch", "epoch hash {got}, expected {expected}"
)
TimestampBeforeOrigin = ReasonKind[int, int](
    "timestamp_before_origin", "V11", "batch", "timestamp {timestamp} is before its L1 origin's, {origin}"
)
ActivationBlockNotEmpty = ReasonKind[int](
    "activation_block_not_empty", "V12", "batch", "transactions in the activation block of time {timestamp}"
)
DriftExceeded = ReasonKind[int, int](
    "drift_exceeded", "V13", "batch", "timestamp {timestamp} is beyond the drift bound {bound} and has transactions"
)
DriftEpochNotAdvanced = ReasonKind[int, int, int](
    "drift_epoch_not_advanced",
    "V13",
    "batch",
    "empty at {timestamp}, beyond {bound}, though L1 time {next} allows the next epoch",
)
DriftUndecidable = ReasonKind[int, int](
    "drift_undecidable", "V13", "batch", "empty at {timestamp}, beyond {bound}; the next L1 block is not known yet"
)
TransactionEmpty = ReasonKind[int]("transaction_empty", "V14", "batch", "transaction {index} is empty")
TransactionIsDeposit = ReasonKind[int]("transaction_is_deposit", "V14", "batch", "transaction {index} is a deposit")
SetCodeNotAllowed = ReasonKind[int](
    "set_code_not_allowed", "V14", "batch", "transaction {index} sets code before set-code transactions are allowed"
)
PostExecNotAllowed = ReasonKind[int](
    "post_exec_not_allowed", "V14", "batch", "transaction {index} is post-exec before such transactions are allowed"
)
SpanStartEpochUnknown = ReasonKind[int](
    "span_start_epoch_unknown", "PX2", "batch", "start epoch {epoch} is not known yet"
)
SpanEpochNotAllowed = ReasonKind[int](
    "span_epoch_not_allowed", "PX3", "batch", "span batch in an epoch of time {time}, before span batches are allowed"
)
SpanAhead = ReasonKind[int, int]("span_ahead", "PX4", "batch", "starts at {timestamp}, ahead of the next, {next}")
SpanPast = ReasonKind[int, int]("span_past", "PX5", "batch", "ends at {timestamp}, before the next, {next}")
SpanStartBetweenBlocks = ReasonKind[int, int, int](
    "span_start_between_blocks",
    "PX6a",
    "batch",
    "starts at {timestamp}, between the safe head's {safe} and the next, {next}",
)
SpanMisaligned = ReasonKind[int, int](
    "span_misaligned", "PX6b", "batch", "starts at {timestamp}, not a whole number of blocks before {safe}"
)
SpanParentUnavailable = ReasonKind[int](
    "span_parent_unavailable", "PX6c", "batch", "its parent, L2 block {number}, is unavailable"
)
SpanParentMismatch = ReasonKind[bytes, bytes](
    "span_parent_mismatch", "PX7", "batch", "parent check {got} is not of block {expected}"
)
SpanWindowExpired = ReasonKind[int, int, int](
    "span_window_expired",
    "PX8",
    "batch",
    "start epoch {epoch} was included in {inclusion}, more than {window} blocks later",
)
SpanEpochTooNew = ReasonKind[int, int](
    "span_epoch_too_new", "PX9", "batch", "start epoch {epoch} skips epochs after its parent's, {parent_epoch}"
)
SpanOriginMismatch = ReasonKind[bytes, bytes](
    "span_origin_mismatch", "PX10", "batch", "origin check {got} is not of L1 block {expected}"
)
SpanOriginUnknown = ReasonKind[int](
    "span_origin_unknown", "PX10", "batch", "last epoch {epoch} is not among the known L1 blocks"
)
SpanEpochTooOld = ReasonKind[int, int](
    "span_epoch_too_old", "PX11", "batch", "start epoch {epoch} is before its parent's, {parent_epoch}"
)
SpanBlockEpochTooOld = ReasonKind[int, int, int](
    "span_block_epoch_too_old", "FU1", "batch", "block {index} has epoch {epoch}, before the safe head's, {safe_epoch}"
)
SpanBlockEpochUnknown = ReasonKind[int, int](
    "span_block_epoch_unknown", "FU2", "batch", "block {index} has epoch {epoch}, not among the known L1 blocks"
)
OverlapBlockUnavailable = ReasonKind[int](
    "overlap_block_unavailable", "FU7", "batch", "L2 block {number}, which it overlaps, is unavailable"
)
OverlapCountMismatch = ReasonKind[int, int, int](
    "overlap_count_mismatch", "FU7", "batch", "{got} transactions for L2 block {number}, which has {expected}"
)
OverlapTransactionsMismatch = ReasonKind[int](
    "overlap_transactions_mismatch", "FU7", "batch", "transactions differ from those of L2 block {number}"
)
OverlapEpochMismatch = ReasonKind[int, int, int](
    "overlap_epoch_mismatch", "FU7", "batch", "epoch {got} for L2 block {number}, which has {expected}"
)
NewBlockEpochTooOld = ReasonKind[int, int](
    "new_block_epoch_too_old",
    "X2",
    "batch",
    "epoch {epoch} of its first new block is before the safe head's, {safe_epoch}",
)
NewBlockEpochUnknown = ReasonKind[int](
    "new_block_epoch_unknown", "X3", "batch", "epoch {epoch} of its new blocks is not among the known L1 blocks"
)
PendingSpanMismatch = ReasonKind[int, int](
    "pending_span_mismatch", "X6", "batch", "the pending span continues at {timestamp}, but the next block is at {next}"
)
SafeOriginMismatch = ReasonKind[str, str](
    "safe_origin_mismatch",
    "E6",
    "pipeline",
    "the safe head's origin {parent_origin} does not fit the first epoch {first}",
)
QueuedBatchPast = ReasonKind[str]("queued_batch_past", "BQ7", "batch", "past in the batch queue: {cause}")
L1OriginInvalid = ReasonKind[str]("l1_origin_invalid", "AQ2", "pipeline", "{error}")
PayloadReplacedByDeposits = ReasonKind[()](
    "payload_replaced_by_deposits",
    "AQ3",
    "channel",
    "an invalid payload was replaced by its deposits: span and channels are flushed",
)
StagesReplaced = ReasonKind[int, int, int](
    "stages_replaced", "PS3", "pipeline", "{frames} frames, {channels} channels and {batches} batches at the fork"
)
