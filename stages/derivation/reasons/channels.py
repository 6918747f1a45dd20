"""Reasons of the channel stages, and why a channel gives no further batch."""

from rollup_node.stages.derivation.reasons.reason import ReasonKind, declare

ChannelTimedOut = ReasonKind[bytes, int, int](
    "CB2", "channel", "channel {channel}, opened at L1 block {opened}, timed out after {timeout} blocks"
)
ChannelIncomplete = ReasonKind[bytes, int](
    "CB5", "channel", "channel {channel} is incomplete: frame {number} is missing"
)
FrameTooLate = ReasonKind[int, bytes, int](
    "CB8", "frame", "frame {number} of channel {channel}, opened at L1 block {opened}, which has timed out"
)
FrameClosesClosedChannel = ReasonKind[int, bytes, int](
    "CB9.1", "frame", "closing frame {number} of channel {channel}, which frame {end} closed before"
)
FrameDuplicate = ReasonKind[int, bytes]("CB9.2", "frame", "frame {number} of channel {channel} is a duplicate")
FrameBeyondEnd = ReasonKind[int, bytes, int](
    "CB9.3", "frame", "frame {number} of channel {channel}, which ends with frame {end}"
)
FrameSuperseded = ReasonKind[int, bytes, int](
    "CB10", "frame", "frame {number} of channel {channel} is beyond its closing frame {end}"
)
ChannelEvicted = ReasonKind[bytes, int, int](
    "CB12", "channel", "channel {channel} was the oldest, with {size} bytes in the bank and a limit of {limit}"
)
StagingChannelTimedOut = ReasonKind[bytes, int, int](
    "CA1", "channel", "channel {channel}, opened at L1 block {opened}, timed out after {timeout} blocks"
)
StagingChannelReplaced = ReasonKind[bytes, bytes](
    "CA3", "channel", "channel {channel} was incomplete when channel {next} started"
)
FrameWithoutChannel = ReasonKind[int, bytes](
    "CA4", "frame", "frame {number} of channel {channel}, which has not started"
)
FrameOfOtherChannel = ReasonKind[int, bytes, bytes](
    "CA5", "frame", "frame {number} of channel {channel} while channel {staging} is being assembled"
)
FrameNotNext = ReasonKind[int, bytes, int](
    "CA5", "frame", "frame {number} of channel {channel}, expected frame {expected}"
)
StagingChannelTooLarge = ReasonKind[bytes, int, int](
    "CA6", "channel", "channel {channel} has {size} bytes, the limit is {limit}"
)
ChannelEmpty = ReasonKind[()]("RD1", "channel", "no bytes")
BrotliNotAllowed = ReasonKind[()]("RD3", "channel", "brotli compression before it is allowed")
CompressionUnknown = ReasonKind[int]("RD4", "channel", "unknown compression, first byte {first}")
ZlibHeaderInvalid = ReasonKind[bytes]("RD6", "channel", "invalid zlib header {header}")
StreamItemIsList = ReasonKind[int]("ST2", "channel", "a list instead of a byte string at offset {offset}")
StreamLengthNotMinimal = ReasonKind[int](
    "ST3", "channel", "a length that is not in its shortest form at offset {offset}"
)
StreamLimitExceeded = ReasonKind[int, int]("ST4", "channel", "more than {limit} bytes at offset {offset}")
StreamExhausted = ReasonKind[()]("ST5", "channel", "the end was reached")
StreamTruncated = ReasonKind[int]("ST5", "channel", "an item at offset {offset} is cut off")
StreamDamaged = ReasonKind[int, str]("ST6", "channel", "at offset {offset}: {error}")
BatchEmpty = ReasonKind[()]("BE1", "channel", "a batch without bytes")
BatchTypeUnknown = ReasonKind[int]("BE3", "channel", "unknown batch type {kind}")
SingularBatchMalformed = ReasonKind[str]("BE4", "channel", "malformed singular batch: {error}")
SpanBatchMalformed = ReasonKind[int, str]("BE4", "channel", "malformed span batch, byte {offset}: {error}")
SpanBatchNotAllowed = ReasonKind[int](
    "BE5", "batch", "span batch at L1 block time {time}, before span batches are allowed"
)
SpanTransactionInvalid = ReasonKind[int, str]("BE6", "batch", "transaction {index} of the span batch: {error}")
ChannelBehindSafeHead = ReasonKind[bytes, int](
    "BS2", "channel", "channel {channel} ends in L1 block {origin}, not after the safe head's origin"
)

declare(vars())
