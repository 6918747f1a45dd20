"""Why something was ignored, dropped, flushed, timed out or reset: every reason once, with the rule that rules it.

Log line, metric label and `explain` are made from here. Rule ids are those of derivation-rules."""

from enum import Enum, StrEnum
from typing import NamedTuple

import msgspec

from rollup_node.stages.protocol.types import L1BlockRef

Value = int | str | bytes


class Effect(StrEnum):
    """What happened to the subject, and what went with it."""

    IGNORED = "ignored"
    DROPPED = "dropped"
    FLUSHED = "dropped with the rest of its span and channel"
    ENDED = "ended the reading of its channel"
    PAST = "skipped as past"
    LOST = "lost undecided"
    TIMED_OUT = "timed out"
    DISCARDED = "discarded"
    RESET = "asks for a reset"


class Rule(NamedTuple):
    """A rule: its id, what it judges, and its text with places for values."""

    id: str
    subject: str
    text: str


class Why(Enum):
    """All reasons. Calling a member with the values of its text gives a Reason."""

    CONFIG_UPDATE = Rule("T5", "config update", "log {log}: {problem}")
    L1_PARENT = Rule("T3", "L1 block", "L1 block {number} has parent {parent}, expected {expected}")
    L1_BASE = Rule("RS1", "L1 block", "L1 block {number} is {got}, the reset's base is {expected}")

    BLOBS_GONE = Rule("T8", "L1 block", "nobody has the blobs of L1 block {number}")

    SENDER = Rule("F4", "transaction", "sender {sender} is not the batcher {batcher}")
    BLOB = Rule("O7", "blob", "blob {index} ({hash}) does not decode: {problem}")

    ALT_DA_VOID = Rule("AD1", "pipeline", "the input of a commitment read before was never given")
    ALT_DA_EMPTY = Rule("AD3", "commitment", "no bytes")
    ALT_DA_COMMITMENT = Rule("AD5", "commitment", "malformed commitment: {problem}")
    ALT_DA_KIND = Rule("AD6", "commitment", "of type {kind}, the chain has type {expected}")
    ALT_DA_EXPIRED = Rule("AD6", "commitment", "the challenge of {commitment} expired")
    ALT_DA_REORG = Rule("AD6", "pipeline", "commitment {commitment} was judged on another L1 chain")
    ALT_DA_SIZE = Rule("AD7", "commitment", "input of {size} bytes, {limit} are allowed")

    FRAMES_EMPTY = Rule("P1", "frames", "no bytes")
    FRAMES_VERSION = Rule("P2", "frames", "unknown version {version}")
    FRAMES_NONE = Rule("P3", "frames", "no frame after the version byte")
    FRAME_CUT = Rule("P5", "frames", "frame {frame} at offset {offset} is cut off in its {field}")
    FRAME_LENGTH = Rule("P6", "frames", "frame {frame} at offset {offset} claims {length} bytes")
    FRAME_LAST = Rule("P8", "frames", "frame {frame} at offset {offset} has end mark {mark}")

    PRUNED_AFTER_LAST = Rule("Q3a", "frame", "frame {number} of channel {channel} follows the closing frame {previous}")
    PRUNED_ORDER = Rule("Q3b", "frame", "frame {number} of channel {channel} follows frame {previous}")
    PRUNED_UNCLOSED = Rule("Q3c", "frame", "frame {number} of channel {channel} is not the last, yet {next} starts")
    PRUNED_NOT_FIRST = Rule("Q3d", "frame", "frame {number} of channel {channel} does not continue {previous}")

    BANK_TIMEOUT = Rule("CB2", "channel", "channel {channel}, opened at L1 block {opened}, timed out after {timeout}")
    BANK_LATE = Rule("CB8", "frame", "frame {number} of channel {channel}, which timed out (opened at {opened})")
    BANK_SECOND_END = Rule("CB9.1", "frame", "closing frame {number} of channel {channel}, which frame {end} closed")
    BANK_DUPLICATE = Rule("CB9.2", "frame", "frame {number} of channel {channel} is there already")
    BANK_BEYOND = Rule("CB9.3", "frame", "frame {number} of channel {channel}, which ends with frame {end}")
    BANK_SUPERSEDED = Rule("CB10", "frame", "frame {number} of channel {channel} lies beyond its closing frame {end}")
    BANK_FULL = Rule("CB12", "channel", "channel {channel} was the oldest of {size} bytes, {limit} are allowed")

    CHANNEL_INCOMPLETE = Rule("CB5", "channel", "channel {channel} is not complete: frame {number} is missing")

    STAGING_TIMEOUT = Rule(
        "CA1", "channel", "channel {channel}, opened at L1 block {opened}, timed out after {timeout}"
    )
    STAGING_REPLACED = Rule("CA3", "channel", "channel {channel}, unfinished, gave way to channel {next}")
    STAGING_NONE = Rule("CA4", "frame", "frame {number} of channel {channel}, of which no start is held")
    STAGING_OTHER = Rule(
        "CA5", "frame", "frame {number} of channel {channel} while channel {held} is being put together"
    )
    STAGING_ORDER = Rule("CA5", "frame", "frame {number} of channel {channel}, expected {expected}")
    STAGING_SIZE = Rule("CA6", "channel", "channel {channel} of {size} bytes, {limit} are allowed")

    CHANNEL_EMPTY = Rule("RD1", "channel", "no bytes")
    CHANNEL_BROTLI = Rule("RD3", "channel", "brotli before it is allowed")
    CHANNEL_COMPRESSION = Rule("RD4", "channel", "unknown compression, first byte {first}")
    CHANNEL_ZLIB_HEADER = Rule("RD6", "channel", "bad zlib header {header}")
    STREAM_DONE = Rule("ST5", "channel", "all of it was read")
    STREAM_LIST = Rule("ST2", "channel", "a list where a byte string must be, at offset {offset}")
    STREAM_LENGTH = Rule("ST3", "channel", "a length not in its shortest form at offset {offset}")
    STREAM_LIMIT = Rule("ST4", "channel", "more than {limit} bytes at offset {offset}")
    STREAM_CUT = Rule("ST5", "channel", "an item at offset {offset} is cut off")
    STREAM_DAMAGED = Rule("ST6", "channel", "at offset {offset}: {problem}")

    BATCH_EMPTY = Rule("BE1", "batch", "no bytes")
    BATCH_TYPE = Rule("BE3", "batch", "unknown batch type {kind}")
    SINGULAR_MALFORMED = Rule("BE4", "batch", "malformed singular batch: {problem}")
    SPAN_MALFORMED = Rule("BE4", "batch", "malformed span batch, byte {offset}: {problem}")
    SPAN_EARLY = Rule("BE5", "batch", "span batch at L1 block time {time}, before they are allowed")
    SPAN_TRANSACTION = Rule("BE6", "batch", "transaction {index} of the span batch: {problem}")
    SPAN_POST_EXEC = Rule("CV9", "batch", "post-exec transaction in a block of time {time}, before they are allowed")

    BEHIND = Rule("BS2", "channel", "channel {channel} ends in L1 block {origin}, not after the safe head's origin")

    TIME_AHEAD = Rule("V2", "batch", "timestamp {timestamp} is ahead of the next, {next}")
    TIME_OLD = Rule("V3", "batch", "timestamp {timestamp} is before the next, {next}")
    PARENT_HASH = Rule("V4", "batch", "parent hash {got}, expected {expected}")
    WINDOW = Rule("V5", "batch", "epoch {epoch} was included in {inclusion}, more than {window} blocks later")
    EPOCH_OLD = Rule("V6", "batch", "epoch {epoch} is before {first}")
    EPOCH_UNKNOWN = Rule("V8", "batch", "epoch {epoch} is not known yet")
    EPOCH_AHEAD = Rule("V9", "batch", "epoch {epoch} is not {first} or the one after")
    EPOCH_HASH = Rule("V10", "batch", "epoch hash {got}, expected {expected}")
    TIME_BEFORE_ORIGIN = Rule("V11", "batch", "timestamp {timestamp} is before its L1 origin's, {origin}")
    ACTIVATION_FILLED = Rule("V12", "batch", "transactions in the activation block of time {timestamp}")
    DRIFT = Rule("V13", "batch", "timestamp {timestamp} is beyond the drift bound {bound} and has transactions")
    DRIFT_EPOCH = Rule(
        "V13", "batch", "empty at {timestamp}, beyond {bound}, though L1 time {next} allows the next epoch"
    )
    DRIFT_UNKNOWN = Rule("V13", "batch", "empty at {timestamp}, beyond {bound}; the next L1 block is not known yet")
    TRANSACTION_EMPTY = Rule("V14", "batch", "transaction {index} is empty")
    TRANSACTION_DEPOSIT = Rule("V14", "batch", "transaction {index} is a deposit")
    TRANSACTION_SET_CODE = Rule("V14", "batch", "transaction {index} sets code, before that is allowed")
    TRANSACTION_POST_EXEC = Rule("V14", "batch", "transaction {index} is post-exec, before that is allowed")

    NO_EPOCHS = Rule("V1", "batch", "no L1 block is known")
    SPAN_NEXT_UNKNOWN = Rule("PX2", "batch", "start epoch {epoch} is not known yet")
    SPAN_BEFORE_FORK = Rule("PX3", "batch", "span batch in an epoch of time {time}, before they are allowed")
    SPAN_AHEAD = Rule("PX4", "batch", "starts at {timestamp}, ahead of the next, {next}")
    SPAN_OLD = Rule("PX5", "batch", "ends at {timestamp}, before the next, {next}")
    SPAN_BETWEEN = Rule("PX6a", "batch", "starts at {timestamp}, between the safe head's {safe} and the next, {next}")
    SPAN_MISALIGNED = Rule("PX6b", "batch", "starts at {timestamp}, not a whole number of blocks before {safe}")
    SPAN_NO_PARENT = Rule("PX6c", "batch", "its parent, L2 block {number}, is not to be had")
    SPAN_PARENT = Rule("PX7", "batch", "parent check {got} is not of block {expected}")
    SPAN_WINDOW = Rule(
        "PX8", "batch", "start epoch {epoch} was included in {inclusion}, more than {window} blocks later"
    )
    SPAN_EPOCH_AHEAD = Rule("PX9", "batch", "start epoch {epoch} leaves out some after {parent_epoch}")
    SPAN_ORIGIN_CHECK = Rule("PX10", "batch", "origin check {got} is not of L1 block {expected}")
    SPAN_ORIGIN_UNKNOWN = Rule("PX10", "batch", "last epoch {epoch} is not among the known L1 blocks")
    SPAN_EPOCH_OLD = Rule("PX11", "batch", "start epoch {epoch} is before its parent's, {parent_epoch}")

    FULL_EPOCH_OLD = Rule("FU1", "batch", "block {index} has epoch {epoch}, before the safe head's, {safe_epoch}")
    FULL_EPOCH_UNKNOWN = Rule("FU2", "batch", "block {index} has epoch {epoch}, not among the known L1 blocks")
    OVERLAP_MISSING = Rule("FU7", "batch", "L2 block {number}, which it overlaps, is not to be had")
    OVERLAP_COUNT = Rule("FU7", "batch", "{got} transactions for L2 block {number}, which has {expected}")
    OVERLAP_TRANSACTIONS = Rule("FU7", "batch", "other transactions than L2 block {number}")
    OVERLAP_EPOCH = Rule("FU7", "batch", "epoch {got} for L2 block {number}, which has {expected}")

    EXTRACT_EPOCH_OLD = Rule(
        "X2", "batch", "epoch {epoch} of its first new block is before the safe head's, {safe_epoch}"
    )
    EXTRACT_EPOCH_UNKNOWN = Rule("X3", "batch", "epoch {epoch} is not among the known L1 blocks")
    SPAN_REST = Rule("X6", "batch", "the rest of the span starts at {timestamp}, the next block is of {next}")
    QUEUE_PAST = Rule("BQ7", "batch", "past in the batch queue: {problem}")

    EPOCH_MISMATCH = Rule(
        "E6", "pipeline", "the safe head's origin {parent_origin} does not fit the first epoch {first}"
    )
    ORIGIN_PARENT = Rule("AQ2", "pipeline", "{problem}")
    DEPOSITS_ONLY = Rule(
        "AQ3", "channel", "an invalid payload was replaced by its deposits: span and channels are flushed"
    )
    FORK_SWITCH = Rule("PS3", "pipeline", "{frames} frames, {channels} channels, {batches} batches at the fork")

    def __call__(self, **values: Value) -> "Reason":
        return Reason(self.name, {key: _portable(value) for key, value in values.items()})


class Reason(msgspec.Struct, frozen=True, array_like=True):
    """A reason with its values, bytes among them as hex text; `name` is that of a member of Why."""

    name: str
    values: dict[str, int | str]

    @property
    def why(self) -> Why:
        return Why[self.name]

    @property
    def rule(self) -> Rule:
        rule: Rule = Why[self.name].value
        return rule

    def __str__(self) -> str:
        return self.rule.text.format_map(self.values)


class Dropped(msgspec.Struct, frozen=True, array_like=True):
    """Something that goes no further, and why; `origin` is the L1 block that was being read."""

    effect: Effect
    reason: Reason
    origin: L1BlockRef | None

    @property
    def label(self) -> str:
        """The metric label: rule id and reason."""
        return f"{self.reason.rule.id} {self.reason.name.lower()}"

    def __str__(self) -> str:
        return f"{self.reason.rule.subject} {self.effect.value}: {self.reason} (rule {self.reason.rule.id})"


def _portable(value: Value) -> int | str:
    return f"0x{value.hex()}" if isinstance(value, bytes) else value
