"""Reasons of the channel stages, and why a channel gives no further batch."""

from rollup_node.stages.derivation.reasons.reason import ReasonKind

ChannelTimedOut = ReasonKind[bytes, int, int](
    "channel_timed_out",
    "CB2",
    "channel",
    "channel {channel}, opened at L1 block {opened}, timed out after {timeout} blocks",
)
ChannelIncomplete = ReasonKind[bytes, int](
    "channel_incomplete", "CB5", "channel", "channel {channel} is incomplete: frame {number} is missing"
)
FrameTooLate = ReasonKind[int, bytes, int](
    "frame_too_late",
    "CB8",
    "frame",
    "frame {number} of channel {channel}, opened at L1 block {opened}, which has timed out",
)
FrameClosesClosedChannel = ReasonKind[int, bytes, int](
    "frame_closes_closed_channel",
    "CB9.1",
    "frame",
    "closing frame {number} of channel {channel}, which frame {end} closed before",
)
FrameDuplicate = ReasonKind[int, bytes](
    "frame_duplicate", "CB9.2", "frame", "frame {number} of channel {channel} is a duplicate"
)
FrameBeyondEnd = ReasonKind[int, bytes, int](
    "frame_beyond_end", "CB9.3", "frame", "frame {number} of channel {channel}, which ends with frame {end}"
)
FrameSuperseded = ReasonKind[int, bytes, int](
    "frame_superseded", "CB10", "frame", "frame {number} of channel {channel} is beyond its closing frame {end}"
)
ChannelEvicted = ReasonKind[bytes, int, int](
    "channel_evicted",
    "CB12",
    "channel",
    "channel {channel} was the oldest, with {size} bytes in the bank and a limit of {limit}",
)
StagingChannelTimedOut = ReasonKind[bytes, int, int](
    "staging_channel_timed_out",
    "CA1",
    "channel",
    "channel {channel}, opened at L1 block {opened}, timed out after {timeout} blocks",
)
StagingChannelReplaced = ReasonKind[bytes, bytes](
    "staging_channel_replaced", "CA3", "channel", "channel {channel} was incomplete when channel {next} started"
)
FrameWithoutChannel = ReasonKind[int, bytes](
    "frame_without_channel", "CA4", "frame", "frame {number} of channel {channel}, which has not started"
)
FrameOfOtherChannel = ReasonKind[int, bytes, bytes](
    "frame_of_other_channel",
    "CA5",
    "frame",
    "frame {number} of channel {channel} while channel {staging} is being assembled",
)
FrameNotNext = ReasonKind[int, bytes, int](
    "frame_not_next", "CA5", "frame", "frame {number} of channel {channel}, expected frame {expected}"
)
StagingChannelTooLarge = ReasonKind[bytes, int, int](
    "staging_channel_too_large", "CA6", "channel", "channel {channel} has {size} bytes, the limit is {limit}"
)
ChannelEmpty = ReasonKind[()]("channel_empty", "RD1", "channel", "no bytes")
BrotliNotAllowed = ReasonKind[()]("brotli_not_allowed", "RD3", "channel", "brotli compression before it is allowed")
CompressionUnknown = ReasonKind[int]("compression_unknown", "RD4", "channel", "unknown compression, first byte {first}")
ZlibHeaderInvalid = ReasonKind[bytes]("zlib_header_invalid", "RD6", "channel", "invalid zlib header {header}")
StreamItemIsList = ReasonKind[int](
    "stream_item_is_list", "ST2", "channel", "a list instead of a byte string at offset {offset}"
)
StreamLengthNotMinimal = ReasonKind[int](
    "stream_length_not_minimal", "ST3", "channel", "a length that is not in its shortest form at offset {offset}"
)
StreamLimitExceeded = ReasonKind[int, int](
    "stream_limit_exceeded", "ST4", "channel", "more than {limit} bytes at offset {offset}"
)
StreamExhausted = ReasonKind[()]("stream_exhausted", "ST5", "channel", "the end was reached")
StreamTruncated = ReasonKind[int]("stream_truncated", "ST5", "channel", "an item at offset {offset} is cut off")
StreamDamaged = ReasonKind[int, str]("stream_damaged", "ST6", "channel", "at offset {offset}: {error}")
BatchEmpty = ReasonKind[()]("batch_empty", "BE1", "channel", "a batch without bytes")
BatchTypeUnknown = ReasonKind[int]("batch_type_unknown", "BE3", "channel", "unknown batch type {kind}")
SingularBatchMalformed = ReasonKind[str](
    "singular_batch_malformed", "BE4", "channel", "malformed singular batch: {error}"
)
SpanBatchMalformed = ReasonKind[int, str](
    "span_batch_malformed", "BE4", "channel", "malformed span batch, byte {offset}: {error}"
)
SpanBatchNotAllowed = ReasonKind[int](
    "span_batch_not_allowed", "BE5", "batch", "span batch at L1 block time {time}, before span batches are allowed"
)
SpanTransactionInvalid = ReasonKind[int, str](
    "span_transaction_invalid", "BE6", "batch", "transaction {index} of the span batch: {error}"
)
ChannelBehindSafeHead = ReasonKind[bytes, int](
    "channel_behind_safe_head",
    "BS2",
    "channel",
    "channel {channel} ends in L1 block {origin}, not after the safe head's origin",
)
