"""From the bytes of a complete channel to its batches: decompression, the stream of RLP items, the batches in them.

A pure function of the bytes and of the rules of the L1 block at which the channel is read [W3]."""

from collections.abc import Callable, Iterator
from typing import TypeVar

from rollup_node.stages.derivation.codec import brotli_stream, zlib_stream
from rollup_node.stages.derivation.codec.batches import DecodedBatch, RejectedBatch, SingularBatchError, decode_singular
from rollup_node.stages.derivation.codec.rlp_stream import BufferedReader, StreamReader, WholeReader, read_items
from rollup_node.stages.derivation.codec.span_batch import SpanBatchError, SpanRules, decode_span
from rollup_node.stages.derivation.reasons import channels as reasons
from rollup_node.stages.derivation.reasons.reason import Reason

SINGULAR, SPAN = 0, 1
"""Batch types [BE2]."""
BROTLI_VERSION = 1
MAX_WHOLE = 16_000_000
"""Bytes of output that are held in memory at once; longer outputs are read piece by piece."""

S = TypeVar("S")
P = TypeVar("P")


def open_body(body: bytes, max_bytes: int, brotli: bool) -> StreamReader | reasons.ChannelEnd:
    """Return a reader of the decompressed bytes, or why the channel is dropped [RD1 to RD6].

    `max_bytes` is the limit of RLP bytes that the reader will be used with; `brotli`: it is allowed."""
    if not body:
        return reasons.ChannelEmpty()
    if body[0] & 15 in (8, 15):
        return _open_zlib(body, max_bytes)
    if body[0] != BROTLI_VERSION:
        return reasons.CompressionUnknown(body[0])
    return _open_brotli(memoryview(body)[1:], max_bytes) if brotli else reasons.BrotliNotAllowed()


def _open_zlib(body: bytes, max_bytes: int) -> StreamReader | reasons.ChannelEnd:
    start = zlib_stream.deflate_start(body)
    if start is None:
        return reasons.ZlibHeaderInvalid(body[:6])
    output = zlib_stream.whole_output(body, start, min(max_bytes, MAX_WHOLE))
    if output is None:
        return BufferedReader(zlib_stream.ZlibSource(body, start))
    if _is_all(output, max_bytes):
        return WholeReader(output)
    del output
    long = zlib_stream.LongStream(body, start, max_bytes)
    return BufferedReader(long if long.is_sound() else zlib_stream.ZlibSource(body, start))


def _open_brotli(data: memoryview, max_bytes: int) -> StreamReader:
    output = brotli_stream.whole_output(data, min(max_bytes, MAX_WHOLE), zlib_stream.SLACK)
    if output is not None and _is_all(output, max_bytes):
        return WholeReader(output)
    return BufferedReader(brotli_stream.BrotliSource(data))


def _is_all(output: bytes, max_bytes: int) -> bool:
    """Whether a reader with this limit can see no more than this output."""
    return max_bytes <= MAX_WHOLE or len(output) < MAX_WHOLE + zlib_stream.SLACK


def read_batches(
    body: bytes, max_bytes: int, brotli: bool, rules: SpanRules, first: int = 0
) -> Iterator[DecodedBatch | reasons.ChannelEnd]:
    """Yield the batches from number `first` on, one by one, then why there are no more."""
    reader = open_body(body, max_bytes, brotli)
    if isinstance(reader, Reason):
        yield reader
        return
    for number, item in enumerate(read_items(reader, max_bytes)):
        if number < first and not isinstance(item, Reason):
            continue
        batch = item if isinstance(item, Reason) else decode_batch(item, rules)
        yield batch
        if isinstance(batch, Reason):
            return


def decode_batch(item: bytes, rules: SpanRules) -> DecodedBatch | reasons.ChannelEnd:
    """Return the batch in an RLP item, its type byte first; or why the channel ends with it."""
    return decode_envelope(item, lambda: decode_singular(item, 1), lambda: decode_span(item, 1, rules))


def decode_envelope(
    item: bytes, singular: Callable[[], S], span: Callable[[], P | reasons.SpanTransactionInvalid]
) -> S | P | RejectedBatch | reasons.ChannelEnd:
    """Return what the decoder of the batch's type gives; or why the channel ends with it [BE1 to BE4]."""
    if not item:
        return reasons.BatchEmpty()
    if item[0] == SINGULAR:
        return singular_or_end(singular)
    if item[0] == SPAN:
        return span_or_end(span)
    return reasons.BatchTypeUnknown(item[0])


def singular_or_end(decode: Callable[[], S]) -> S | reasons.SingularBatchMalformed:
    """Return a singular batch, or why the channel ends with it [BE4]."""
    try:
        return decode()
    except SingularBatchError as error:
        return reasons.SingularBatchMalformed(str(error))


def span_or_end(
    decode: Callable[[], P | reasons.SpanTransactionInvalid],
) -> P | RejectedBatch | reasons.SpanBatchMalformed:
    """Return a span batch, rejected if its transactions cannot be restored, or why the channel ends [BE4, BE6]."""
    try:
        span = decode()
    except SpanBatchError as error:
        return reasons.SpanBatchMalformed(error.offset, str(error))
    return RejectedBatch(span) if isinstance(span, reasons.SpanTransactionInvalid) else span
