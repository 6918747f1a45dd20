"""From the bytes of a complete channel to its batches: decompression, the stream of items, the batches in them
(derivation-rules 9 to 12). A pure function of the bytes and of the rules of the L1 block at which it is read."""

from collections.abc import Callable, Iterator
from typing import TypeVar

from rollup_node.stages.derivation.codec import brotli_stream, zlib_stream
from rollup_node.stages.derivation.codec.batches import DecodedBatch, RefusedBatch
from rollup_node.stages.derivation.codec.rlp_stream import BufferedReader, Reader, WholeReader, read_items
from rollup_node.stages.derivation.codec.singular_batch import SingularBatchError, decode_singular
from rollup_node.stages.derivation.codec.span_batch import SpanBatchError, SpanRules, decode_span
from rollup_node.stages.derivation.reasons.reasons import Reason, Why

SINGULAR, SPAN = 0, 1
BROTLI_MARK = 1
S = TypeVar("S")
P = TypeVar("P")
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
    return envelope(item, lambda: decode_singular(item, 1), lambda: decode_span(item, 1, rules))


def envelope(item: bytes, singular: Callable[[], S], span: Callable[[], P | Reason]) -> S | P | RefusedBatch | Reason:
    """What the decoder that the first byte asks for makes of a batch (9.4)."""
    if not item:
        return Why.BATCH_EMPTY()
    if item[0] == SINGULAR:
        return guarded_singular(singular)
    if item[0] == SPAN:
        return guarded_span(span)
    return Why.BATCH_TYPE(kind=item[0])


def guarded_singular(decode: Callable[[], S]) -> S | Reason:
    """A singular batch, or what is wrong with its bytes."""
    try:
        return decode()
    except SingularBatchError as error:
        return Why.SINGULAR_MALFORMED(problem=str(error))


def guarded_span(decode: Callable[[], P | Reason]) -> P | RefusedBatch | Reason:
    """A span batch; refused alone if its transactions cannot be restored; or what is wrong with its bytes."""
    try:
        span = decode()
    except SpanBatchError as error:
        return Why.SPAN_MALFORMED(offset=error.offset, problem=str(error))
    return RefusedBatch(span) if isinstance(span, Reason) else span
