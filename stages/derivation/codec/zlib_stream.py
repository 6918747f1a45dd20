"""Zlib channels: whole ones by the C library, damaged ones by our own inflate [Z9]."""

import zlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

SLACK = 65536
"""Bytes decoded beyond the budget: damage beyond these cannot affect items within the budget."""

_SYNC = b"\x00\x00\xff\xff"
_FINAL_EMPTY_BLOCK = b"\x01\x00\x00\xff\xff"
_EMPTY_DICTIONARY = b"\x00\x00\x00\x01"
CHECKSUM = "checksum wrong or missing"
_PIECE = 1 << 16


def deflate_start(body: bytes) -> int | None:
    """Return the offset of the deflate stream behind a valid zlib header; None for an invalid one [RD6]."""
    if len(body) < 2 or body[0] & 15 != 8 or body[0] >> 4 > 7 or (body[0] << 8 | body[1]) % 31:
        return None
    if not body[1] & 0x20:
        return 2
    return 6 if body[2:6] == _EMPTY_DICTIONARY else None


def whole_output(body: bytes, start: int, limit: int) -> bytes | None:
    """Return the output of a stream in which a reader with this limit, in bytes, can see no damage.

    It is complete, or longer than the limit, or was flushed and never closed. None when it must be read piece by
    piece."""
    if body[-4:] == _SYNC and (output := _flushed_output(body, start, limit)) is not None:
        return output
    decoder = zlib.decompressobj(-15)
    try:
        output = decoder.decompress(memoryview(body)[start:], limit + SLACK)
    except zlib.error:
        return None
    if not decoder.eof:
        return output if len(output) >= limit + SLACK else None
    return output if decoder.unused_data[:4] == zlib.adler32(output).to_bytes(4, "big") else None


def _flushed_output(body: bytes, start: int, limit: int) -> bytes | None:
    """Return the output if the stream ends with a sync flush, which is an empty stored block."""
    decoder = zlib.decompressobj(-15)
    try:
        output = decoder.decompress(memoryview(body)[start:-4], limit + SLACK)
        if decoder.eof or decoder.unconsumed_tail or len(output) >= limit + SLACK:
            return None
        # Only if the decoder stands before the block's length field, these bytes give no output and end the stream.
        rest = decoder.decompress(_SYNC + _FINAL_EMPTY_BLOCK)
    except zlib.error:
        return None
    return output if not rest and decoder.eof and not decoder.unused_data else None


Piece = tuple[bytes, str | None]
"""Output, and the final status with the last piece: END or an error."""


def sound_pieces(body: bytes, start: int, limit: int) -> Iterator[Piece]:
    """Yield the output of a stream, up to the limit, decoded in pieces by the C library.

    For one with more output than fits in memory. Raises zlib.error if it is damaged or cut off before."""
    decoder, at, left, checksum = zlib.decompressobj(-15), start, limit + SLACK, 1
    while left and not decoder.eof:
        value = decoder.unconsumed_tail or body[at : at + _PIECE]
        at += 0 if decoder.unconsumed_tail else len(value)
        piece = decoder.decompress(value, min(left, _PIECE))
        if not value and not piece:
            raise zlib.error(CUT_OFF)
        left -= len(piece)
        checksum = zlib.adler32(piece, checksum)
        yield piece, None
    if left:
        at -= len(decoder.unused_data)
        if body[at : at + 4] != checksum.to_bytes(4, "big"):
            raise zlib.error(CHECKSUM)
    yield b"", END


def is_sound(body: bytes, start: int, limit: int) -> bool:
    """Whether a reader with this limit can see no damage: the stream is complete, or longer than the limit."""
    try:
        for _ in sound_pieces(body, start, limit):
            pass
    except zlib.error:
        return False
    return True


def inflated_pieces(body: bytes, start: int) -> Iterator[Piece]:
    """Yield the output of any stream, piece by piece, as Go's compress/zlib hands it out [Z3, Z4]."""
    inflater, checksum = Inflater(body, start), 1
    for piece, status in inflater.pieces():
        checksum = zlib.adler32(piece, checksum)
        is_wrong = status == END and body[inflater.at : inflater.at + 4] != checksum.to_bytes(4, "big")
        yield piece, CHECKSUM if is_wrong else status


class PieceSource:
    """A stream that is read piece by piece."""

    def __init__(self, pieces: Iterator[Piece]) -> None:
        self._pieces = pieces
        self._piece = b""
        self._status: str | None = None

    def read(self, size: int) -> tuple[bytes, str | None]:
        """At most `size` bytes of one piece, with the final status when they are the last of the stream."""
        while not self._piece and self._status is None:
            self._piece, self._status = next(self._pieces)
        part, self._piece = self._piece[:size], self._piece[size:]
        return part, None if self._piece else self._status


END = "end"
CUT_OFF = "compressed stream cut off"
CORRUPT = "compressed stream corrupt"
WINDOW = 32768

_END_OF_BLOCK = 256
_CODE_ORDER = (16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15)
_REPEATS = {16: (3, 2), 17: (3, 3), 18: (11, 7)}
_LENGTHS = (
    *((length, 0) for length in range(3, 11)),
    *((3 + (4 + step << extra), extra) for extra in range(1, 6) for step in range(4)),
    (258, 0),
)
_DISTANCES = (
    *((distance, 0) for distance in range(1, 5)),
    *((1 + (2 + step << extra), extra) for extra in range(1, 14) for step in range(2)),
)


class _StreamError(Exception):
    """The stream is cut off or corrupt."""


class _Code(NamedTuple):
    """A Huffman code.

    `table` gives, for the next bits under `mask`, symbol << 4 | length, or 0 for no symbol. `need` is the number of
    bits that must be available before any symbol is read: Go asks for those of the end-of-block symbol, or of the
    shortest one if that is longer [Z9]."""

    table: list[int]
    mask: int
    need: int


def _code(lengths: Sequence[int], end_of_block: bool = False) -> _Code:
    """Return the canonical code with these lengths of symbols."""
    used = [length for length in lengths if length]
    if not used:
        return _Code([0], 0, 0)
    longest = max(used)
    size = 1 << longest
    filled = sum(size >> length for length in used)
    if filled != size and not (longest == 1 and filled == 1):
        raise _StreamError(CORRUPT)
    table = [0] * size
    code = 0
    for length in range(1, longest + 1):
        code <<= 1
        for symbol, own in enumerate(lengths):
            if own == length:
                start = int(f"{code:0{length}b}"[::-1], 2)
                table[start :: 1 << length] = [symbol << 4 | length] * (size >> length)
                code += 1
    need = max(min(used), lengths[_END_OF_BLOCK]) if end_of_block else min(used)
    return _Code(table, size - 1, need)


_FIXED_LITERALS = _code([8] * 144 + [9] * 112 + [7] * 24 + [8] * 8, end_of_block=True)
_FIXED_DISTANCES = _code([5] * 32)


class Inflater:
    """Inflates `data` from offset `at`; after the last piece, `at` is the offset behind the stream."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.at, self._data = at, data
        self._bits = self._count = 0
        self._out = bytearray()
        self._given = 0
        self._boundary = WINDOW

    def pieces(self) -> Iterator[Piece]:
        """Yield the output, piece by piece; only the last one has a status, and may be empty."""
        try:
            final = 0
            while not final:
                final, kind = self._take(1), self._take(2)
                if kind == 0:
                    yield from self._stored(bool(final))
                elif kind == 3:
                    raise _StreamError(CORRUPT)
                else:
                    codes = (_FIXED_LITERALS, _FIXED_DISTANCES) if kind == 1 else self._dynamic_codes()
                    yield from self._symbols(*codes)
        except _StreamError as error:
            yield self._pending(len(self._out)), str(error)
            return
        self._align()
        yield self._pending(len(self._out)), END

    def _pending(self, end: int) -> bytes:
        piece = bytes(self._out[self._given : end])
        self._given = end
        return piece

    def _full_piece(self) -> bytes:
        """Return the piece up to the boundary; output that is too old for any distance is discarded."""
        piece = self._pending(self._boundary)
        del self._out[: self._boundary - WINDOW]
        self._given, self._boundary = WINDOW, 2 * WINDOW
        return piece

    def _refill(self) -> None:
        taken = self._data[self.at : self.at + 8]
        self._bits |= int.from_bytes(taken, "little") << self._count
        self._count += 8 * len(taken)
        self.at += len(taken)

    def _take(self, count: int) -> int:
        if self._count < count:
            self._refill()
            if self._count < count:
                raise _StreamError(CUT_OFF)
        value = self._bits & ((1 << count) - 1)
        self._bits >>= count
        self._count -= count
        return value

    def _symbol(self, code: _Code) -> int:
        if self._count < 15:
            self._refill()
        entry = code.table[self._bits & code.mask]
        length = entry & 15
        if not length:
            raise _StreamError(CORRUPT)
        if self._count < max(length, code.need):
            raise _StreamError(CUT_OFF)
        self._bits >>= length
        self._count -= length
        return entry >> 4

    def _align(self) -> None:
        """Skip to the next whole byte of the input."""
        self.at -= self._count >> 3
        self._bits = self._count = 0

    def _stored(self, final: bool) -> Iterator[Piece]:
        self._align()
        head = self._data[self.at : self.at + 4]
        self.at += len(head)
        if len(head) < 4:
            raise _StreamError(CUT_OFF)
        size = int.from_bytes(head[:2], "little")
        if size ^ 0xFFFF != int.from_bytes(head[2:], "little"):
            raise _StreamError(CORRUPT)
        if not size and not final and (piece := self._pending(len(self._out))):
            yield piece, None
        content = self._data[self.at : self.at + size]
        self.at += len(content)
        self._out += content
        while len(self._out) >= self._boundary:
            yield self._full_piece(), None
        if len(content) < size:
            raise _StreamError(CUT_OFF)

    def _dynamic_codes(self) -> tuple[_Code, _Code]:
        literals, distances, lengths = self._take(5) + 257, self._take(5) + 1, self._take(4) + 4
        if literals > 286 or distances > 30:
            raise _StreamError(CORRUPT)
        widths = [0] * len(_CODE_ORDER)
        for place in _CODE_ORDER[:lengths]:
            widths[place] = self._take(3)
        code = _code(widths)
        result: list[int] = []
        while len(result) < literals + distances:
            symbol = self._symbol(code)
            if symbol < 16:
                result.append(symbol)
                continue
            if symbol == 16 and not result:
                raise _StreamError(CORRUPT)
            base, extra = _REPEATS[symbol]
            result += [result[-1] if symbol == 16 else 0] * (base + self._take(extra))
        if len(result) > literals + distances:
            raise _StreamError(CORRUPT)
        return _code(result[:literals], end_of_block=True), _code(result[literals:])

    def _symbols(self, literals: _Code, distances: _Code) -> Iterator[Piece]:
        table, mask, need = literals
        # The bit buffer is in locals for speed: nearly all the time is spent in this loop.
        out, bits, count = self._out, self._bits, self._count
        while True:
            if count < 15:
                self._bits, self._count = bits, count
                self._refill()
                bits, count = self._bits, self._count
            entry = table[bits & mask]
            length = entry & 15
            if not length or count < length or count < need:
                raise _StreamError(CUT_OFF if length else CORRUPT)
            bits >>= length
            count -= length
            symbol = entry >> 4
            if symbol < _END_OF_BLOCK:
                out.append(symbol)
            else:
                self._bits, self._count = bits, count
                if symbol == _END_OF_BLOCK:
                    return
                self._copy(symbol, distances)
                bits, count = self._bits, self._count
            if len(out) >= self._boundary:
                yield self._full_piece(), None

    def _copy(self, symbol: int, distances: _Code) -> None:
        if symbol > 285:
            raise _StreamError(CORRUPT)
        base, extra = _LENGTHS[symbol - 257]
        length = base + self._take(extra)
        symbol = self._symbol(distances)
        if symbol > 29:
            raise _StreamError(CORRUPT)
        base, extra = _DISTANCES[symbol]
        distance = base + self._take(extra)
        out = self._out
        if distance > len(out) or distance > WINDOW:
            raise _StreamError(CORRUPT)
        start = len(out) - distance
        if distance >= length:
            out += out[start : start + length]
        else:
            out += (out[start:] * (length // distance + 1))[:length]
