"""From the bytes of a complete channel to its batches: decompression, the stream of items, the batches in them
(derivation-rules 9 to 12). A pure function of the bytes and of the rules of the L1 block at which it is read."""

from collections.abc import Iterator

from rollup_node.stages.derivation import brotli_stream, zlib_stream
from rollup_node.stages.derivation.batches import DecodedBatch, RefusedBatch, SingularBatch
from rollup_node.stages.derivation.reasons import Reason, Why
from rollup_node.stages.derivation.rlp_stream import BufferedReader, Reader, WholeReader, read_items
from rollup_node.stages.derivation.singular_batch import SingularBatchError, decode_singular
from rollup_node.stages.derivation.span_batch import SpanBatchError, SpanRules, decode_span

SINGULAR, SPAN = 0, 1
BROTLI_MARK = 1
MAX_WHOLE = 16_000_000
"""Longer outputs are not held at once but read piece by piece."""


def open_body(body: bytes, max_bytes: int, brotli: bool) -> Reader | Reason:
    """A reader of the decompressed bytes, or why there is none."""
    if not body:
        return Why.CHANNEL_EMPTY()
    if body[0] & 15 in (8, 15):
        return _open_zlib(body, max_bytes)
    if body[0] != BROTLI_MARK:
        return Why.CHANNEL_COMPRESSION(first=body[0])
    return _open_brotli(memoryview(body)[1:], max_bytes) if brotli else Why.CHANNEL_BROTLI()


def _open_zlib(body: bytes, max_bytes: int) -> Reader | Reason:
    start = zlib_stream.deflate_start(body)
    if start is None:
        return Why.CHANNEL_ZLIB_HEADER(header=body[:6])
    output = zlib_stream.whole_output(body, start, min(max_bytes, MAX_WHOLE))
    if output is None:
        return BufferedReader(zlib_stream.ZlibSource(body, start))
    if _is_held(output, max_bytes):
        return WholeReader(output)
    del output
    long = zlib_stream.LongStream(body, start, max_bytes)
    return BufferedReader(long if long.is_sound() else zlib_stream.ZlibSource(body, start))


def _open_brotli(data: memoryview, max_bytes: int) -> Reader:
    output = brotli_stream.whole_output(data, min(max_bytes, MAX_WHOLE), zlib_stream.SLACK)
    if output is not None and _is_held(output, max_bytes):
        return WholeReader(output)
    return BufferedReader(brotli_stream.BrotliSource(data))


def _is_held(output: bytes, max_bytes: int) -> bool:
    """Whether the output is all that a reader with this limit can come to see."""
    return max_bytes <= MAX_WHOLE or len(output) < MAX_WHOLE + zlib_stream.SLACK


def read_batches(
    body: bytes, max_bytes: int, brotli: bool, rules: SpanRules, first: int = 0
) -> Iterator[DecodedBatch | Reason]:
    """The batches from number `first` on, one by one, then why there are no more."""
    reader = open_body(body, max_bytes, brotli)
    if isinstance(reader, Reason):
        yield reader
        return
    for number, item in enumerate(read_items(reader, max_bytes)):
        if number < first and not isinstance(item, Reason):
            continue
        outcome = item if isinstance(item, Reason) else decode_batch(item, rules)
        yield outcome
        if isinstance(outcome, Reason):
            return


def decode_batch(item: bytes, rules: SpanRules) -> DecodedBatch | Reason:
    """One batch; a Reason when nothing behind it is read any more."""
    if not item:
        return Why.BATCH_EMPTY()
    if item[0] == SINGULAR:
        return _decode_singular(item)
    if item[0] == SPAN:
        return _decode_span(item, rules)
    return Why.BATCH_TYPE(kind=item[0])


def _decode_singular(item: bytes) -> SingularBatch | Reason:
    try:
        return decode_singular(item, 1)
    except SingularBatchError as error:
        return Why.SINGULAR_MALFORMED(problem=str(error))


def _decode_span(item: bytes, rules: SpanRules) -> DecodedBatch | Reason:
    try:
        span = decode_span(item, 1, rules)
    except SpanBatchError as error:
        return Why.SPAN_MALFORMED(offset=error.offset, problem=str(error))
    return RefusedBatch(span) if isinstance(span, Reason) else span
