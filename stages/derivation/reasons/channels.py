"""Reasons of the channel stages, and why a channel gives no further batch."""

from rollup_node.stages.derivation.reasons.reason import Reason, reason


@reason("CB2", "channel", "channel {channel}, opened at L1 block {opened}, timed out after {timeout} blocks")
class ChannelTimedOut(Reason, frozen=True):
    channel: bytes
    opened: int
    timeout: int


@reason("CB5", "channel", "channel {channel} is incomplete: frame {number} is missing")
class ChannelIncomplete(Reason, frozen=True):
    channel: bytes
    number: int


@reason("CB8", "frame", "frame {number} of channel {channel}, opened at L1 block {opened}, which has timed out")
class FrameTooLate(Reason, frozen=True):
    number: int
    channel: bytes
    opened: int


@reason("CB9.1", "frame", "closing frame {number} of channel {channel}, which frame {end} closed before")
class FrameClosesClosedChannel(Reason, frozen=True):
    number: int
    channel: bytes
    end: int


@reason("CB9.2", "frame", "frame {number} of channel {channel} is a duplicate")
class FrameDuplicate(Reason, frozen=True):
    number: int
    channel: bytes


@reason("CB9.3", "frame", "frame {number} of channel {channel}, which ends with frame {end}")
class FrameBeyondEnd(Reason, frozen=True):
    number: int
    channel: bytes
    end: int


@reason("CB10", "frame", "frame {number} of channel {channel} is beyond its closing frame {end}")
class FrameSuperseded(Reason, frozen=True):
    number: int
    channel: bytes
    end: int


@reason("CB12", "channel", "channel {channel} was the oldest, with {size} bytes in the bank and a limit of {limit}")
class ChannelEvicted(Reason, frozen=True):
    channel: bytes
    size: int
    limit: int


@reason("CA1", "channel", "channel {channel}, opened at L1 block {opened}, timed out after {timeout} blocks")
class StagingChannelTimedOut(Reason, frozen=True):
    channel: bytes
    opened: int
    timeout: int


@reason("CA3", "channel", "channel {channel} was incomplete when channel {next} started")
class StagingChannelReplaced(Reason, frozen=True):
    channel: bytes
    next: bytes


@reason("CA4", "frame", "frame {number} of channel {channel}, which has not started")
class FrameWithoutChannel(Reason, frozen=True):
    number: int
    channel: bytes


@reason("CA5", "frame", "frame {number} of channel {channel} while channel {staging} is being assembled")
class FrameOfOtherChannel(Reason, frozen=True):
    number: int
    channel: bytes
    staging: bytes


@reason("CA5", "frame", "frame {number} of channel {channel}, expected frame {expected}")
class FrameNotNext(Reason, frozen=True):
    number: int
    channel: bytes
    expected: int


@reason("CA6", "channel", "channel {channel} has {size} bytes, the limit is {limit}")
class StagingChannelTooLarge(Reason, frozen=True):
    channel: bytes
    size: int
    limit: int


@reason("RD1", "channel", "no bytes")
class ChannelEmpty(Reason, frozen=True): ...


@reason("RD3", "channel", "brotli compression before it is allowed")
class BrotliNotAllowed(Reason, frozen=True): ...


@reason("RD4", "channel", "unknown compression, first byte {first}")
class CompressionUnknown(Reason, frozen=True):
    first: int


@reason("RD6", "channel", "invalid zlib header {header}")
class ZlibHeaderInvalid(Reason, frozen=True):
    header: bytes


@reason("ST2", "channel", "a list instead of a byte string at offset {offset}")
class StreamItemIsList(Reason, frozen=True):
    offset: int


@reason("ST3", "channel", "a length that is not in its shortest form at offset {offset}")
class StreamLengthNotMinimal(Reason, frozen=True):
    offset: int


@reason("ST4", "channel", "more than {limit} bytes at offset {offset}")
class StreamLimitExceeded(Reason, frozen=True):
    offset: int
    limit: int


@reason("ST5", "channel", "the end was reached")
class StreamExhausted(Reason, frozen=True): ...


@reason("ST5", "channel", "an item at offset {offset} is cut off")
class StreamTruncated(Reason, frozen=True):
    offset: int


@reason("ST6", "channel", "at offset {offset}: {error}")
class StreamDamaged(Reason, frozen=True):
    offset: int
    error: str


@reason("BE1", "channel", "a batch without bytes")
class BatchEmpty(Reason, frozen=True): ...


@reason("BE3", "channel", "unknown batch type {kind}")
class BatchTypeUnknown(Reason, frozen=True):
    kind: int


@reason("BE4", "channel", "malformed singular batch: {error}")
class SingularBatchMalformed(Reason, frozen=True):
    error: str


@reason("BE4", "channel", "malformed span batch, byte {offset}: {error}")
class SpanBatchMalformed(Reason, frozen=True):
    offset: int
    error: str


@reason("BE5", "batch", "span batch at L1 block time {time}, before span batches are allowed")
class SpanBatchNotAllowed(Reason, frozen=True):
    time: int


@reason("BE6", "batch", "transaction {index} of the span batch: {error}")
class SpanTransactionInvalid(Reason, frozen=True):
    index: int
    error: str


@reason("BS2", "channel", "channel {channel} ends in L1 block {origin}, not after the safe head's origin")
class ChannelBehindSafeHead(Reason, frozen=True):
    channel: bytes
    origin: int


ChannelEnd = (
    ChannelEmpty
    | BrotliNotAllowed
    | CompressionUnknown
    | ZlibHeaderInvalid
    | StreamItemIsList
    | StreamLengthNotMinimal
    | StreamLimitExceeded
    | StreamExhausted
    | StreamTruncated
    | StreamDamaged
    | BatchEmpty
    | BatchTypeUnknown
    | SingularBatchMalformed
    | SpanBatchMalformed
)
"""Why a channel gives no further batch."""
