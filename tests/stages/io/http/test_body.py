"""Response bodies, compressed or not, and how they are bounded."""

import gzip
import tracemalloc
import zlib

import pytest

from rollup_node.stages.io.http import body
from rollup_node.stages.io.http.body import (
    MAX_MEMBERS,
    BodyEncodingError,
    BodyTooLargeError,
    decompressed,
    is_compressed,
)
from tests.support.processes.stage_runner import run_within
from tests.support.servers.hostile_bodies import gzip_bomb

TEXT = b"0123456789" * 500_000
SHORT = b"0123456789" * 50


def body_of(data: bytes, encoding: str | None, limit: int) -> bytes:
    return run_within(30, lambda: decompressed(bytearray(data), encoding or "", limit))


def test_which_encodings_compress() -> None:
    """[LHD29] A name that is none of a compression says nothing: some servers put a character set there."""
    assert not any(is_compressed(name) for name in ("", "identity", "Identity", "utf-8", "none", "identity, binary"))
    assert all(is_compressed(name) for name in ("GZIP", "br", "zstd", "gzip, gzip", "identity,deflate"))


@pytest.mark.parametrize("encoding", [None, "identity", "gzip", "deflate"])
def test_bodies_arrive_whole(encoding: str | None) -> None:
    compressed = {"gzip": gzip.compress(TEXT), "deflate": zlib.compress(TEXT)}
    data = compressed.get(encoding or "", TEXT)
    assert body_of(data, encoding, len(TEXT)) == TEXT
    with pytest.raises(BodyTooLargeError, match=f"longer than {len(TEXT) - 1} bytes"):
        body_of(data, encoding, len(TEXT) - 1)
    assert body_of(b"", None, 0) == b""


@pytest.mark.parametrize("piece", [1, 5, 20, 1 << 18])
def test_a_body_of_several_members(piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """[LHD29] What follows the last one is ignored."""
    monkeypatch.setattr(body, "PIECE", piece)
    data = b"".join(gzip.compress(part, mtime=0) for part in (SHORT, b"", SHORT[::-1]))
    for rest in (b"", b"\0" * 9, b"x"):
        assert body_of(data + rest, "gzip", 1000) == SHORT + SHORT[::-1]
    with pytest.raises(BodyTooLargeError):
        body_of(data, "gzip", 999)
    with pytest.raises(BodyEncodingError, match="incomplete"):
        body_of(data[:-1], "gzip", 1000)


def test_members_are_counted() -> None:
    with pytest.raises(BodyEncodingError, match="more than 10000 members"):
        body_of(gzip.compress(b"", mtime=0) * (MAX_MEMBERS + 1), "gzip", 1000)


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
