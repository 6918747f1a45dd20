"""HTTP responses with large bodies that are cheap to make and to send."""

import asyncio
import contextlib
import functools
import struct
import zlib

from aiohttp import web
from isal import isal_zlib

from tests.support.servers.http_listener import Handler

_UNIT = b"[]," * 400_000
_GZIP_HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"


@functools.cache
def lists(size: int) -> bytes:
    """Return a JSON list of so many bytes, of empty lists."""
    return b"[" + b"[]," * (size // 3) + b"[]]"


@functools.cache
def gzip_bomb(before: bytes, size: int, after: bytes) -> bytes:
    """Return a gzip file of a JSON list of about so many bytes, of empty lists, between other bytes.

    The repeated part is compressed once."""
    count = size // len(_UNIT)
    deflate = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS)
    start = deflate.compress(before + b"[") + deflate.flush(zlib.Z_FULL_FLUSH)
    repeated = deflate.compress(_UNIT) + deflate.flush(zlib.Z_FULL_FLUSH)
    end = deflate.compress(b"[]]" + after) + deflate.flush(zlib.Z_FINISH)
    checksum = zlib.crc32(before + b"[")
    for _ in range(count):
        checksum = isal_zlib.crc32(_UNIT, checksum)
    checksum = zlib.crc32(b"[]]" + after, checksum)
    length = len(before) + 1 + count * len(_UNIT) + 3 + len(after)
    return _GZIP_HEADER + start + repeated * count + end + struct.pack("<II", checksum, length)


async def send_body(request: web.Request, body: bytes) -> web.StreamResponse:
    """Send a JSON body, gzip-compressed if it begins so, no faster than it is read, until the client closes the
    connection."""
    response = web.StreamResponse()
    response.content_type, response.content_length = "application/json", len(body)
    if body[:2] == _GZIP_HEADER[:2]:
        response.headers["Content-Encoding"] = "gzip"
    await response.prepare(request)
    with contextlib.suppress(ConnectionError):
        for at in range(0, len(body), 1 << 18):
            await response.write(body[at : at + (1 << 18)])
        await response.write_eof()
    return response


def endless(part: bytes, seconds: float = 0.0) -> Handler:
    """Answers with a body that goes on with this part for ever, again after so many seconds."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(part)
            await asyncio.sleep(seconds)

    return answer
