"""Response bodies, compressed or not, and how they are bounded."""

import gzip
import re
import tracemalloc
import zlib

import aiohttp
import pytest
from aiohttp import web

from rollup_node.stages.io.http.http_body import (
    BodyEncodingError,
    BodyTooLargeError,
    decompressed,
    is_compressed,
    read_body,
)
from tests.support.processes.stage_runner import run_within
from tests.support.servers.hostile_bodies import gzip_bomb
from tests.support.servers.http_listener import app_for_every_path, listening

TEXT = b"0123456789" * 500_000
SHORT = b"0123456789" * 50


def body_of(data: bytes, encoding: str | None, limit: int) -> bytes:
    """What `read_body` makes of a response, and `decompressed` of its body."""

    async def handler(request: web.Request) -> web.Response:
        return web.Response(body=data, headers={"Content-Encoding": encoding} if encoding else {})

    async def main() -> bytes:
        async with (
            listening(app_for_every_path(handler)) as (url,),
            aiohttp.ClientSession(auto_decompress=False) as session,
            session.get(url) as response,
        ):
            return await read_body(response, limit)

    try:
        received = run_within(30, main)
    except (BodyTooLargeError, BodyEncodingError) as error:
        with pytest.raises(type(error), match=re.escape(str(error))):
            run_within(30, lambda: decompressed(bytearray(data), encoding or "", limit))
        raise
    assert run_within(30, lambda: decompressed(bytearray(data), encoding or "", limit)) == received
    return received


def test_which_encodings_compress() -> None:
    assert [is_compressed(name) for name in ("", "identity", "Identity", "GZIP", "br")] == [False] * 3 + [True] * 2


@pytest.mark.parametrize("encoding", [None, "identity", "gzip", "deflate"])
def test_bodies_arrive_whole(encoding: str | None) -> None:
    compressed = {"gzip": gzip.compress(TEXT), "deflate": zlib.compress(TEXT)}
    data = compressed.get(encoding or "", TEXT)
    assert body_of(data, encoding, len(TEXT)) == TEXT
    with pytest.raises(BodyTooLargeError, match=f"longer than {len(TEXT) - 1} bytes"):
        body_of(data, encoding, len(TEXT) - 1)
    assert body_of(b"", None, 0) == b""


def test_a_gzip_bomb_takes_no_more_memory_than_the_limit() -> None:
    bomb = gzip_bomb(b"", 200_000_000, b"")
    tracemalloc.start()
    try:
        with pytest.raises(BodyTooLargeError):
            body_of(bomb, "gzip", 2_000_000)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 12_000_000


@pytest.mark.parametrize(
    ("data", "encoding", "text"),
    [
        (b"no gzip", "gzip", "damaged"),
        (gzip.compress(SHORT, mtime=0)[:-9], "gzip", "incomplete"),
        (b"x", "br", "content encoding 'br'"),
        (b"x", "gzip, gzip", "content encoding"),
    ],
)
def test_bodies_that_cannot_be_decompressed(data: bytes, encoding: str, text: str) -> None:
    with pytest.raises(BodyEncodingError, match=text):
        body_of(data, encoding, 1 << 30)
