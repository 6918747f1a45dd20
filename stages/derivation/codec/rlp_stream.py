"""The decompressed channel as a stream of RLP byte strings, read one at a time within a budget (derivation-rules 9.2).

A damaged stream is read through the same buffers as in op-node, because they decide which items before the damage
survive (9.3, Z1 and Z2)."""

from collections.abc import Iterator
from io import BytesIO
from typing import Protocol

from rollup_node.stages.derivation.codec.inflate import END
from rollup_node.stages.derivation.reasons.reasons import Reason, Why

BUFFER = 4096
_EMPTY_READS = 100


class Source(Protocol):
    """Where decompressed bytes come from."""

    def read(self, size: int) -> tuple[bytes, str | None]:
        """At most `size` bytes, and how the stream ended (END or a problem) if it did with these."""


class Reader(Protocol):
    """What items are read from; None when the bytes cannot be had."""

    problem: str | None

    def byte(self) -> int | None: ...

    def exact(self, size: int) -> bytes | None: ...


class WholeReader:
    """Reads from bytes that are all there."""

    def __init__(self, data: bytes) -> None:
        self.problem: str | None = None
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
    """Reads from a source through a buffer of 4,096 bytes. A problem that came with bytes shows when they are used up;
    one that comes with bytes read past the buffer loses them."""

    def __init__(self, source: Source) -> None:
        self.problem: str | None = None
        self._source = source
        self._buffer = b""

    def _fill(self) -> bool:
        if self.problem is not None:
            return False
        for _ in range(_EMPTY_READS):
            self._buffer, self.problem = self._source.read(BUFFER)
            if self._buffer or self.problem is not None:
                break
        return bool(self._buffer)

    def byte(self) -> int | None:
        """The next byte."""
        if not self._buffer and not self._fill():
            return None
        first = self._buffer[0]
        self._buffer = self._buffer[1:]
        return first

    def exact(self, size: int) -> bytes | None:
        """The next `size` bytes."""
        parts = BytesIO()
        missing = size
        while missing:
            if not self._buffer:
                if self.problem is not None:
                    return None
                if missing >= BUFFER:
                    part, self.problem = self._source.read(missing)
                    parts.write(part)
                    missing -= len(part)
                    if self.problem is not None and (missing or self.problem != END):
                        return None
                    continue
                if not self._fill():
                    return None
            part, self._buffer = self._buffer[:missing], self._buffer[missing:]
            parts.write(part)
            missing -= len(part)
        return parts.getvalue()


def read_items(reader: Reader, limit: int) -> Iterator[bytes | Reason]:
    """The content of each byte string, then why there are no more. Heads count towards the `limit`."""
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
        size, width = _size(reader, first, left)
        if isinstance(size, Why):
            yield _failed(size, reader, offset, limit)
            return
        left -= width
        content = reader.exact(size) if size <= left else None
        if content is None:
            yield _failed(Why.STREAM_LIMIT if size > left else Why.STREAM_CUT, reader, offset, limit)
            return
        left -= size
        if size == 1 and content[0] < 0x80:
            yield Why.STREAM_LENGTH(offset=offset)
            return
        yield content


def _size(reader: Reader, first: int, left: int) -> tuple[int | Why, int]:
    """The size an item's head claims and the width of that number, or what is wrong with it."""
    if first >= 0xC0:
        return Why.STREAM_LIST, 0
    if first < 0xB8:
        return first - 0x80, 0
    width = first - 0xB7
    if width > left:
        return Why.STREAM_LIMIT, 0
    if width == 1:
        single = reader.byte()
        digits = None if single is None else bytes((single,))
    else:
        digits = reader.exact(width)
    if digits is None:
        return Why.STREAM_CUT, 0
    size = int.from_bytes(digits, "big")
    return (Why.STREAM_LENGTH if size < 56 or digits[0] == 0 else size), width


def _end_at(reader: Reader, left: int, offset: int) -> Reason:
    if left and reader.problem not in (None, END):
        return Why.STREAM_DAMAGED(offset=offset, problem=str(reader.problem))
    return Why.STREAM_DONE()


def _failed(why: Why, reader: Reader, offset: int, limit: int) -> Reason:
    if why is Why.STREAM_LIMIT:
        return why(offset=offset, limit=limit)
    if why is Why.STREAM_CUT and reader.problem not in (None, END):
        return Why.STREAM_DAMAGED(offset=offset, problem=str(reader.problem))
    return why(offset=offset)
