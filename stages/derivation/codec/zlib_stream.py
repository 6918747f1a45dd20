"""Zlib channels: whole ones by the C library, damaged ones by our own inflate [Z9]."""

import zlib
from collections.abc import Iterator

from rollup_node.stages.derivation.codec.inflate import CUT_OFF, END, Inflater

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


class LongStream:
    """A stream whose output is too long to hold in memory, decoded by the C library in pieces.

    Only for streams that are sound."""

    def __init__(self, body: bytes, start: int, limit: int) -> None:
        self._body = body
        self._start = start
        self._limit = limit + SLACK
        self._pieces = self._decoded()
        self._piece = b""

    def is_sound(self) -> bool:
        """Whether a reader with this limit can see no damage: the stream is complete, or longer than the limit."""
        try:
            for _ in self._decoded():
                pass
        except zlib.error:
            return False
        return True

    def _decoded(self) -> Iterator[bytes]:
        """Yield the output in pieces, up to the limit. Raises zlib.error if the stream is damaged or cut off before."""
        decoder, at, left, checksum = zlib.decompressobj(-15), self._start, self._limit, 1
        while left and not decoder.eof:
            given = decoder.unconsumed_tail or self._body[at : at + _PIECE]
            at += 0 if decoder.unconsumed_tail else len(given)
            piece = decoder.decompress(given, min(left, _PIECE))
            if not given and not piece:
                raise zlib.error(CUT_OFF)
            left -= len(piece)
            checksum = zlib.adler32(piece, checksum)
            yield piece
        if left:
            at -= len(decoder.unused_data)
            if self._body[at : at + 4] != checksum.to_bytes(4, "big"):
                raise zlib.error(CHECKSUM)

    def read(self, size: int) -> tuple[bytes, str | None]:
        """At most `size` bytes, and END after the last."""
        while not self._piece:
            piece = next(self._pieces, None)
            if piece is None:
                return b"", END
            self._piece = piece
        part, self._piece = self._piece[:size], self._piece[size:]
        return part, None


class ZlibSource:
    """The stream piece by piece, as Go's compress/zlib hands it out [Z3, Z4]."""

    def __init__(self, body: bytes, start: int) -> None:
        self._body = body
        self._inflater = Inflater(body, start)
        self._pieces = self._inflater.pieces()
        self._piece = b""
        self._status: str | None = None
        self._sum = 1

    def read(self, size: int) -> tuple[bytes, str | None]:
        """At most `size` bytes of one piece, with the final status when they are the last of the stream."""
        while not self._piece and self._status is None:
            self._piece, self._status = next(self._pieces)
            self._sum = zlib.adler32(self._piece, self._sum)
            if self._status == END:
                self._status = self._checked()
        part, self._piece = self._piece[:size], self._piece[size:]
        return part, None if self._piece else self._status

    def _checked(self) -> str:
        at = self._inflater.at
        return END if self._body[at : at + 4] == self._sum.to_bytes(4, "big") else CHECKSUM
