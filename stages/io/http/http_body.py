"""Reads HTTP response bodies of endpoints that may send anything: bounded in bytes, compressed or not."""

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import aiohttp
    from isal import isal_zlib

CHUNK = 1 << 20
PIECE = 256 << 10
_GZIP_OR_ZLIB = 15 | 32
"""The size of the window, and that the header says which of both."""


class BodyTooLargeError(Exception):
    """The body is longer than `limit` bytes, after decompression."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"the answer is longer than {limit} bytes")
        self.limit = limit


class BodyEncodingError(ValueError):
    """The body is compressed by another method than gzip or deflate, or damaged."""


async def read_body(response: "aiohttp.ClientResponse", limit: int) -> bytes:
    """The decompressed body of at most `limit` bytes. The session must have `auto_decompress` off, since aiohttp
    decompresses all it has received at once. Raises BodyTooLargeError, BodyEncodingError."""
    inflater = _inflater(response.headers.get("Content-Encoding", ""))
    # One buffer that grows: thousands of small parts would leave holes in the heap.
    body = bytearray()
    async for received in response.content.iter_any():
        for part in (received,) if inflater is None else _inflated(inflater, received, limit):
            if len(body) + len(part) > limit:
                response.close()
                # The frames in the error's traceback would keep it in memory.
                body.clear()
                raise BodyTooLargeError(limit)
            body += part
            # One received chunk may decompress to a thousand times its size.
            if inflater is not None:
                await asyncio.sleep(0)
    if inflater is not None and body and not inflater.eof:
        raise BodyEncodingError("the compressed answer is incomplete")
    return bytes(body)


async def decompressed(body: bytearray, encoding: str, limit: int) -> bytes:
    """A body that was received whole, of at most `limit` bytes after decompression; `body` is consumed if it is
    compressed. Raises as `read_body`."""
    inflater = _inflater(encoding)
    if inflater is None:
        if len(body) > limit:
            raise BodyTooLargeError(limit)
        return bytes(body)
    is_empty = not body
    inflated = bytearray()
    # In pieces, as zlib copies all that it has not yet read.
    while body:
        piece = bytes(body[:PIECE])
        del body[:PIECE]
        for part in _inflated(inflater, piece, limit):
            if len(inflated) + len(part) > limit:
                # As in `read_body`.
                inflated.clear()
                body.clear()
                raise BodyTooLargeError(limit)
            inflated += part
            if inflater.unconsumed_tail:
                await asyncio.sleep(0)
    if not is_empty and not inflater.eof:
        raise BodyEncodingError("the compressed answer is incomplete")
    return bytes(inflated)


def is_compressed(encoding: str) -> bool:
    """Whether a content encoding is any."""
    return encoding.lower() not in ("", "identity")


def _inflater(encoding: str) -> "isal_zlib.Decompress | None":
    if not is_compressed(encoding):
        return None
    if encoding.lower() not in ("gzip", "x-gzip", "deflate"):
        raise BodyEncodingError(f"the answer has the content encoding {encoding[:40]!r}")
    # Processes whose endpoints do not compress never need it.
    from isal import isal_zlib

    return isal_zlib.decompressobj(_GZIP_OR_ZLIB)


def _inflated(inflater: "isal_zlib.Decompress", data: bytes, limit: int) -> Iterator[bytes]:
    """The decompressed data in chunks of at most CHUNK bytes."""
    from isal.igzip_lib import IsalError

    chunk = min(CHUNK, limit + 1)
    try:
        while data and not inflater.eof:
            yield inflater.decompress(data, chunk)
            data = inflater.unconsumed_tail
    except IsalError:  # type: ignore[misc]  # its stub declares an instance
        raise BodyEncodingError("the compressed answer is damaged") from None
