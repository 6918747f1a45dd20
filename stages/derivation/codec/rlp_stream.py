"""The decompressed channel as a stream of RLP byte strings, read one at a time within a budget.

A damaged stream is read through the same buffers as in op-node, because they decide which items before the damage
survive [Z1, Z2]."""

from collections.abc import Iterator
from io import BytesIO
from typing import Protocol

from rollup_node.stages.derivation.codec.zlib_stream import END
from rollup_node.stages.derivation.reasons import channels as reasons

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


def read_items(reader: StreamReader, limit: int) -> Iterator[bytes | reasons.ChannelEnd]:
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
            yield reasons.StreamLimitExceeded(offset, limit) if size > left else _cut_off(reader, offset)
            return
        left -= size
        if size == 1 and content[0] < 0x80:
            yield reasons.StreamLengthNotMinimal(offset=offset)
            return
        yield content


def _size(reader: StreamReader, first: int, left: int, offset: int, limit: int) -> tuple[int | reasons.ChannelEnd, int]:
    """Return the size that an item's header declares and the width of that number, or what is wrong with it."""
    if first >= 0xC0:
        return reasons.StreamItemIsList(offset), 0
    if first < 0xB8:
        return first - 0x80, 0
    width = first - 0xB7
    if width > left:
        return reasons.StreamLimitExceeded(offset, limit), 0
    if width == 1:
        single = reader.byte()
        digits = None if single is None else bytes((single,))
    else:
        digits = reader.exact(width)
    if digits is None:
        return _cut_off(reader, offset), 0
    size = int.from_bytes(digits, "big")
    return (reasons.StreamLengthNotMinimal(offset) if size < 56 or digits[0] == 0 else size), width


def _end_at(reader: StreamReader, left: int, offset: int) -> reasons.ChannelEnd:
    if left and reader.error not in (None, END):
        return reasons.StreamDamaged(offset, str(reader.error))
    return reasons.StreamExhausted()


def _cut_off(reader: StreamReader, offset: int) -> reasons.ChannelEnd:
    if reader.error not in (None, END):
        return reasons.StreamDamaged(offset, str(reader.error))
    return reasons.StreamTruncated(offset)
