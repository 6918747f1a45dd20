"""Bodies of HTTP responses: decompressed within a bound, whatever the server sends."""

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from isal import isal_zlib

CHUNK = 1 << 20
PIECE = 256 << 10
MAX_MEMBERS = 10_000
"""Members of a gzip body (RFC 1952): a compressor that works in parallel makes one of each 64 KiB or more."""

_GZIP_OR_ZLIB = 15 | 32
"""zlib's window bits; 32 detects gzip or zlib by the header."""
_GZIP_MAGIC = b"\x1f\x8b"
_DECODED = frozenset({"gzip", "x-gzip", "deflate"})
_NOT_DECODED = frozenset({"br", "zstd", "compress", "x-compress", "dcb", "dcz", "pack200-gzip", "exi"})


class BodyTooLargeError(Exception):
    """The body is longer than `limit` bytes, after decompression."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"the answer is longer than {limit} bytes")
        self.limit = limit


class BodyEncodingError(ValueError):
    """The body is compressed by another method than gzip or deflate, or damaged."""


def is_compressed(encoding: str) -> bool:
    """Return whether a Content-Encoding compresses: some servers name a character set there, or nothing known."""
    names = [name.strip() for name in encoding.lower().split(",")]
    return any(name in _DECODED or name in _NOT_DECODED for name in names)


async def decompressed(body: bytearray, encoding: str, limit: int) -> bytes:
    """Return a body that was received whole, of at most `limit` bytes after decompression.

    A compressed `body` is consumed. Raises BodyTooLargeError and BodyEncodingError."""
    if not is_compressed(encoding):
        if len(body) > limit:
            raise BodyTooLargeError(limit)
        return bytes(body)
    if encoding.lower().strip() not in _DECODED:
        raise BodyEncodingError(f"the answer has the content encoding {encoding[:40]!r}")
    # One buffer that grows: thousands of small parts would leave holes in the heap.
    inflated = bytearray()
    members, rest = 0, _next_piece(body)
    while rest and (not members or rest.startswith(_GZIP_MAGIC)):
        members += 1
        if members > MAX_MEMBERS:
            raise BodyEncodingError(f"the compressed answer has more than {MAX_MEMBERS} members")
        rest = await _inflate_member(rest, body, inflated, limit)
        while body and len(rest) < len(_GZIP_MAGIC):
            rest += _next_piece(body)
        if rest:
            await asyncio.sleep(0)
    return bytes(inflated)


def _next_piece(body: bytearray) -> bytes:
    """Remove the first bytes of a body. In pieces, as zlib copies all that it has not yet read."""
    piece = bytes(body[:PIECE])
    del body[:PIECE]
    return piece


async def _inflate_member(piece: bytes, body: bytearray, inflated: bytearray, limit: int) -> bytes:
    """Decompress one member, which begins with `piece` and goes on in `body`.

    Return what follows it in its last piece."""
    # Processes whose endpoints do not compress never need it.
    from isal import isal_zlib

    inflater = isal_zlib.decompressobj(_GZIP_OR_ZLIB)
    while piece and not inflater.eof:
        for part in _inflated(inflater, piece, limit):
            if len(inflated) + len(part) > limit:
                # The frames in the error's traceback would keep them in memory.
                inflated.clear()
                body.clear()
                raise BodyTooLargeError(limit)
            inflated += part
            # One piece may decompress to a thousand times its size.
            if inflater.unconsumed_tail:
                await asyncio.sleep(0)
        piece = b"" if inflater.eof else _next_piece(body)
    if not inflater.eof:
        raise BodyEncodingError("the compressed answer is incomplete")
    return bytes(inflater.unused_data)


def _inflated(inflater: "isal_zlib.Decompress", data: bytes, limit: int) -> Iterator[bytes]:
    """Yield the decompressed data in chunks of at most CHUNK bytes."""
    from isal.igzip_lib import IsalError

    chunk = min(CHUNK, limit + 1)
    try:
        while data and not inflater.eof:
            yield inflater.decompress(data, chunk)
            data = inflater.unconsumed_tail
    except IsalError:  # type: ignore[misc]  # its stub declares an instance
        raise BodyEncodingError("the compressed answer is damaged") from None
