"""Reasons of the channel reader: why a channel or one of its batches is not read."""

from rollup_node.stages.derivation.reasons.reason import Reason, reason


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
