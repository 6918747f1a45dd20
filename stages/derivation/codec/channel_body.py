"""From the bytes of a complete channel to its batches: decompression, the stream of RLP items, the batches in them.

A pure function of the bytes and of the rules of the L1 block at which the channel is read [W3]. A damaged stream is
read through the same buffers as in op-node, because they decide which items before the damage survive [Z1, Z2]."""

from collections.abc import Callable, Iterator
from io import BytesIO
from typing import Protocol, TypeVar

from rollup_node.stages.derivation.codec import brotli_stream, zlib_stream
from rollup_node.stages.derivation.codec.batches import DecodedBatch, RejectedBatch, SingularBatchError, decode_singular
from rollup_node.stages.derivation.codec.span_batch import SpanBatchError, SpanRules, decode_span
from rollup_node.stages.derivation.codec.zlib_stream import END, PieceSource, inflated_pieces, is_sound, sound_pieces
from rollup_node.stages.derivation.reasons import channels as reasons
from rollup_node.stages.derivation.reasons.reason import Reason

BUFFER = 4096
"""Bytes of Go's bufio.StreamReader."""
_EMPTY_READS = 100
"""Reads without data after which Go's bufio.StreamReader gives up."""


class Decompressor(Protocol):
    """A decompressor."""

    def read(self, size: int) -> tuple[bytes, str | None]:
        """At most `size` bytes, and the final status, END or an error, if the stream ended with them."""


class StreamReader(Protocol):
    """What items are read from. `error` is the status with which the stream ended, END included."""

    error: str | None

    def byte(self) -> int | None:
        """Return the next byte; None if there is none."""

    def exact(self, size: int) -> bytes | None:
        """Return the next `size` bytes; None if there are fewer."""


class WholeReader:
    """Reads from output that is all in memory."""

    def __init__(self, data: bytes) -> None:
        self.error: str | None = None
        self._data = data
        self._at = 0

    def byte(self) -> int | None:
        at = self._at
        if at == len(self._data):
            return None
        self._at = at + 1
        return self._data[at]

    def exact(self, size: int) -> bytes | None:
        start, self._at = self._at, self._at + size
        taken = self._data[start : self._at]
        return taken if len(taken) == size else None


class BufferedReader:
    """Reads from a source through a buffer of 4,096 bytes.

    An error that came with buffered bytes shows when they are used up; one that comes with bytes read directly, past
    the buffer, loses them [Z1, Z2]."""

    def __init__(self, source: Decompressor) -> None:
        self.error: str | None = None
        self._source = source
        self._buffer = b""

    def _fill(self) -> bool:
        if self.error is not None:
            return False
        for _ in range(_EMPTY_READS):
            self._buffer, self.error = self._source.read(BUFFER)
            if self._buffer or self.error is not None:
                break
        return bool(self._buffer)

    def byte(self) -> int | None:
        if not self._buffer and not self._fill():
            return None
        first = self._buffer[0]
        self._buffer = self._buffer[1:]
        return first

    def exact(self, size: int) -> bytes | None:
        parts = BytesIO()
        missing = size
        while missing:
            if not self._buffer:
                if self.error is not None:
                    return None
                if missing >= BUFFER:
                    # A direct read: an error fails the item even if the data is complete, only END is forgiven.
                    part, self.error = self._source.read(missing)
                    parts.write(part)
                    missing -= len(part)
                    if self.error is not None and (missing or self.error != END):
                        return None
                    continue
                if not self._fill():
                    return None
            part, self._buffer = self._buffer[:missing], self._buffer[missing:]
            parts.write(part)
            missing -= len(part)
        return parts.getvalue()


def read_items(reader: StreamReader, limit: int) -> Iterator[bytes | Reason]:
    """Yield each byte string's content, then why it ends; `limit` counts heads as well [ST1 to ST6]."""
    left = limit
    while True:
        offset = limit - left
        first = reader.byte() if left else None
        if first is None:
            yield _end_at(reader, left, offset)
            return
        left -= 1
        if first < 0x80:
            yield bytes((first,))
            continue
        size, width = _size(reader, first, left, offset, limit)
        if not isinstance(size, int):
            yield size
            return
        left -= width
        content = reader.exact(size) if size <= left else None
        if content is None:
            yield reasons.StreamLimitExceeded(limit, offset) if size > left else _cut_off(reader, offset)
            return
        left -= size
        if size == 1 and content[0] < 0x80:
            yield reasons.StreamLengthNotMinimal(offset)
            return
        yield content


def _size(reader: StreamReader, first: int, left: int, offset: int, limit: int) -> tuple[int | Reason, int]:
    """Return the size that an item's header declares and the width of that number, or what is wrong with it."""
    if first >= 0xC0:
        return reasons.StreamItemIsList(offset), 0
    if first < 0xB8:
        return first - 0x80, 0
    width = first - 0xB7
    if width > left:
        return reasons.StreamLimitExceeded(limit, offset), 0
    if width == 1:
        single = reader.byte()
        digits = None if single is None else bytes((single,))
    else:
        digits = reader.exact(width)
    if digits is None:
        return _cut_off(reader, offset), 0
    size = int.from_bytes(digits, "big")
    return (reasons.StreamLengthNotMinimal(offset) if size < 56 or digits[0] == 0 else size), width


def _end_at(reader: StreamReader, left: int, offset: int) -> Reason:
    if left and reader.error not in (None, END):
        return reasons.StreamDamaged(offset, str(reader.error))
    return reasons.StreamExhausted()


def _cut_off(reader: StreamReader, offset: int) -> Reason:
    if reader.error not in (None, END):
        return reasons.StreamDamaged(offset, str(reader.error))
    return reasons.StreamTruncated(offset)


SINGULAR, SPAN = 0, 1
"""Batch types [BE2]."""
BROTLI_VERSION = 1
MAX_WHOLE = 16_000_000
"""Bytes of output that are held in memory at once; longer outputs are read piece by piece."""

S = TypeVar("S")
P = TypeVar("P")


def open_body(body: bytes, max_bytes: int, brotli: bool) -> StreamReader | Reason:
    """Return a reader of the decompressed bytes, or why the channel is dropped [RD1 to RD6].

    `max_bytes` is the limit of RLP bytes that the reader will be used with; `brotli`: it is allowed."""
    if not body:
        return reasons.ChannelEmpty()
    if body[0] & 15 in (8, 15):
        return _open_zlib(body, max_bytes)
    if body[0] != BROTLI_VERSION:
        return reasons.CompressionUnknown(body[0])
    return _open_brotli(memoryview(body)[1:], max_bytes) if brotli else reasons.BrotliNotAllowed()


def _open_zlib(body: bytes, max_bytes: int) -> StreamReader | Reason:
    start = zlib_stream.deflate_start(body)
    if start is None:
        return reasons.ZlibHeaderInvalid(body[:6])
    output = zlib_stream.whole_output(body, start, min(max_bytes, MAX_WHOLE))
    if output is None:
        return BufferedReader(PieceSource(inflated_pieces(body, start)))
    if _is_all(output, max_bytes):
        return WholeReader(output)
    del output
    sound = is_sound(body, start, max_bytes)
    return BufferedReader(PieceSource(sound_pieces(body, start, max_bytes) if sound else inflated_pieces(body, start)))


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
) -> Iterator[DecodedBatch | Reason]:
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


def decode_batch(item: bytes, rules: SpanRules) -> DecodedBatch | Reason:
    """Return the batch in an RLP item, its type byte first; or why the channel ends with it."""
    return decode_envelope(item, decode_singular, lambda data, at: decode_span(data, at, rules))


def decode_envelope(
    item: bytes,
    singular: Callable[[bytes, int], S],
    span: Callable[[bytes, int], P | Reason],
) -> S | P | RejectedBatch | Reason:
    """Return what the decoder of the batch's type gives; or why the channel ends with it [BE1 to BE4].

    A span batch whose transactions cannot be restored is rejected [BE6]."""
    if not item:
        return reasons.BatchEmpty()
    try:
        if item[0] == SINGULAR:
            return singular(item, 1)
        if item[0] == SPAN:
            decoded = span(item, 1)
            return RejectedBatch(decoded) if isinstance(decoded, Reason) else decoded
    except SingularBatchError as error:
        return reasons.SingularBatchMalformed(str(error))
    except SpanBatchError as error:
        return reasons.SpanBatchMalformed(error.offset, str(error))
    return reasons.BatchTypeUnknown(item[0])
