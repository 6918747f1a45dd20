"""One HTTP connection with responses in packets of any size, and with servers that break the rules."""

import asyncio
import gzip
import itertools
import sys
import tracemalloc
import zlib
from collections.abc import Callable
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollup_node.stages.io.http import connection
from rollup_node.stages.io.http.connection import (
    AFTER_THE_END,
    MAX_FRAMING,
    BodyEncodingError,
    BodyTooLargeError,
    HttpConnection,
    HttpError,
    Response,
    ServerDisconnectedError,
    decompressed,
    is_compressed,
    is_success,
    mended,
)
from tests.support.processes.stage_runner import run_within
from tests.support.servers.hostile_bodies import gzip_bomb

LIMIT = 1000
HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
HELLO = HEAD + b"Content-Length: 5\r\n\r\nhello"


class Wire(asyncio.Transport):
    """The other side of a connection."""

    def __init__(self, connection: HttpConnection) -> None:
        super().__init__()
        self.closed = False
        self._connection = connection
        connection.connection_made(self)

    def write(self, data: object) -> None:
        """Whatever is asked, the response is made already."""

    def is_closing(self) -> bool:
        """Whether the connection is closed or about to be."""
        return self.closed

    def get_write_buffer_size(self) -> int:
        """All is sent."""
        return 0

    def abort(self) -> None:
        """Close the connection."""
        if not self.closed:
            self.closed = True
            asyncio.get_running_loop().call_soon(self._connection.connection_lost, None)


class Outcome(NamedTuple):
    """What an exchange ends in, and whether its connection can be used again."""

    answer: Response | Exception
    is_open: bool


def outcome_of(*packets: bytes, take: Callable[[bytes], None] | None = None) -> Outcome:
    """Return the outcome of a response in these packets, after which the server closes the connection."""

    async def main() -> Outcome:
        connection = HttpConnection()
        wire = Wire(connection)
        loop = asyncio.get_running_loop()
        exchange = loop.create_task(connection.exchange(b"", b"", LIMIT, loop.time() + 60, take))
        await asyncio.sleep(0)
        for packet in packets:
            if not wire.closed:
                connection.data_received(packet)
        if not exchange.done():
            await asyncio.sleep(0)
        if not exchange.done():
            wire.abort()
        (answer,) = await asyncio.gather(exchange, return_exceptions=True)
        assert not isinstance(answer, BaseException) or isinstance(answer, Exception)
        references = sys.getrefcount(answer.body) if isinstance(answer, Response) else 2
        assert references == 2, "those of the answer and of this call: an idle connection holds none"
        is_open = connection.is_open
        connection.close()
        await asyncio.sleep(0)
        return Outcome(answer, is_open)

    return asyncio.run(main())


def response_of(*packets: bytes, take: Callable[[bytes], None] | None = None) -> Response:
    """As `outcome_of`, of a response that is none of the client's errors."""
    answer = outcome_of(*packets, take=take).answer
    assert isinstance(answer, Response), answer
    return answer


class Valid(NamedTuple):
    """A valid response as bytes, its meaning, and whether its end can be seen."""

    data: bytes
    status: int
    body: bytes
    ends: bool


@st.composite
def valid_responses(draw: st.DrawFn) -> Valid:
    """Valid responses, by length, in chunks or until the connection ends, after interim ones."""
    body = draw(st.binary(max_size=300))
    status = draw(st.sampled_from([200, 201, 401, 503]))
    data = draw(
        st.sampled_from([b"", b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n"])
    )
    data += b"HTTP/1.1 %d Any words\r\n" % status
    for name in draw(st.lists(st.sampled_from([b"Date: now", b"X-A:", b"vary: \tOrigin "]), max_size=3)):
        data += name + b"\r\n"
    framing = draw(st.sampled_from(["length", "chunks", "end"]))
    if framing == "length":
        data += b"content-LENGTH: %d\r\n\r\n" % len(body) + body
    elif framing == "end":
        data += b"\r\n" + body
    else:
        data += b"Transfer-Encoding: Chunked\r\n\r\n"
        for at in range(0, len(body), step := draw(st.integers(1, 100))):
            chunk = body[at : at + step]
            data += b"%x%b\r\n%b\r\n" % (len(chunk), draw(st.sampled_from([b"", b";a=b"])), chunk)
        data += b"0\r\n" + draw(st.sampled_from([b"", b"Retry-After: 5\r\n"])) + b"\r\n"
    return Valid(data, status, body, framing != "end")


@settings(max_examples=50)
@given(valid=valid_responses(), cuts=st.lists(st.integers(0, 1000), max_size=6))
def test_a_response_means_the_same_in_any_packets(valid: Valid, cuts: list[int]) -> None:
    ends = [0, *sorted(cut for cut in cuts if cut < len(valid.data)), len(valid.data)]
    packets = [valid.data[a:b] for a, b in itertools.pairwise(ends) if a < b]
    outcome = outcome_of(*packets)
    assert isinstance(outcome.answer, Response), outcome.answer
    assert (outcome.answer.status, bytes(outcome.answer.body)) == (valid.status, valid.body)
    assert "retry-after" not in outcome.answer.headers, "a trailer is no header"
    assert outcome.is_open == valid.ends


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"SSH-2.0-OpenSSH_9.2\r\n", "not HTTP: Expected HTTP/"),
        (b"HTTP/1.1 2xx OK\r\n\r\n", "not HTTP: Invalid status code"),
        (HEAD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "not HTTP: "),
        (HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", "not HTTP: "),
        (HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", "not HTTP: Duplicate Content-Length"),
        (HEAD + b"Content-Length: -5\r\n\r\n", "not HTTP: Invalid character in Content-Length"),
        (HEAD + b"Content-Length: 5, 5\r\n\r\n", "not HTTP: Invalid character in Content-Length"),
        (HEAD + b"Content-Length: " + b"9" * 30 + b"\r\n\r\n", "not HTTP: Content-Length overflow"),
        (HEAD + b"No colon\r\n\r\n", "not HTTP: Invalid header token"),
        (HEAD + b"X: a\0b\r\n\r\n", "not HTTP: Invalid header value char"),
        (CHUNKED + b"f" * 20 + b"\r\n", "not HTTP: Chunk size overflow"),
        (CHUNKED + b"-1\r\n", "not HTTP: Invalid character in chunk size"),
        (CHUNKED + b"1\r\nab\r\n", "not HTTP: Expected LF after chunk data"),
        (HELLO + b"garbage", AFTER_THE_END),
        (HELLO + HELLO, AFTER_THE_END),
        (HEAD + b"Content-Length: 6\r\n\r\nhello", "closed by the server within its answer"),
        (CHUNKED + b"5\r\nhello\r\n", "closed by the server within its answer"),
        (HEAD + b"Date: now", "closed by the server before its answer"),
        (b"HTTP/1.1 100 Continue\r\n\r\n", "closed by the server before its answer"),
        (HEAD + b"X: " + b"a" * MAX_FRAMING, "too many bytes of headers"),
        (HEAD + b"X: a\r\n" * (MAX_FRAMING // 6), "too many bytes of headers"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" * (MAX_FRAMING // 20), "too many bytes of headers"),
        (CHUNKED + b"1;" + b"a" * MAX_FRAMING, "too many bytes of headers"),
        (CHUNKED + b"0\r\n" + b"X: a\r\n" * (MAX_FRAMING // 6), "too many bytes of headers"),
    ],
)
def test_a_server_that_breaks_the_rules(data: bytes, text: str) -> None:
    """In one packet and in many."""
    for size in (len(data), 1009):
        outcome = outcome_of(*(data[at : at + size] for at in range(0, len(data), size)))
        assert isinstance(outcome.answer, HttpError), outcome.answer
        assert isinstance(outcome.answer, ServerDisconnectedError) is ("before its answer" in text)
        assert text in str(outcome.answer)
        assert not outcome.is_open


@pytest.mark.parametrize(
    "data",
    [
        HEAD + b"Content-Length: 1001\r\n\r\n",
        HEAD + b"\r\n" + bytes(1001),
        CHUNKED + b"3e8\r\n" + bytes(1000) + b"\r\n1\r\n\0\r\n0\r\n\r\n",
        HEAD + b"Content-Encoding: gzip\r\nContent-Length: 2100\r\n\r\n",
    ],
)
def test_a_body_is_bounded(data: bytes) -> None:
    outcome = outcome_of(data)
    assert isinstance(outcome.answer, BodyTooLargeError)
    assert str(outcome.answer) == "the answer is longer than 1000 bytes"
    assert not outcome.is_open


@pytest.mark.parametrize(
    ("data", "body"),
    [
        (CHUNKED + b"1\r\nx\r\n" * LIMIT + b"0\r\n\r\n", b"x" * LIMIT),
        (HELLO.replace(b"5", b"0" * 5000 + b"5"), b"hello"),
        (HELLO.replace(b"\r\n", b"\n"), b"hello"),
    ],
    ids=["chunks of a byte", "zeros", "lines without a carriage return"],
)
def test_odd_responses_within_the_bounds(data: bytes, body: bytes) -> None:
    assert response_of(data).body == body


@pytest.mark.parametrize(
    "head",
    [
        b"Content-Length: 5\r\nContent-Length:5 ",
        b"X: a;\r\n  b\r\nContent-Length: 5",
        b"Content-Length: 5\r\nX: a;\r\n\tb\r\n b\r\nY: c\r\nContent-length: 5",
        b"X: a\n b\nContent-Length: 5",
    ],
)
def test_odd_heads_that_are_no_attack(head: bytes) -> None:
    """[LHD29] In one packet, in small ones and in two."""
    data = HEAD + head + b"\r\n\r\nhello"
    for size in (len(data), 1, 7, len(data) - 7):
        answer = response_of(*(data[at : at + size] for at in range(0, len(data), size)))
        assert (bytes(answer.body), answer.headers["content-length"]) == (b"hello", "5")
        assert "".join(answer.headers.get("x", "ab").split()) in ("ab", "a;b", "a;bb")


def test_only_folds_and_repetitions_are_mended() -> None:
    assert mended(HELLO) == HELLO and mended(b"A: b\nC: d") == b"A: b\r\nC: d"
    assert mended(b"A: b\r\n c\r\nContent-Length: 1\r\nContent-Length: 2") == (
        b"A: b c\r\nContent-Length: 1\r\nContent-Length: 2"
    )


def test_an_odd_head_is_bounded_and_not_mended_twice() -> None:
    twice = b"Content-Length: 5\r\nContent-Length: 5\r\n"
    for data in (twice + b"X: a\r\n" * (MAX_FRAMING // 6), b"X: a\r\n" + b" b\r\n" * (MAX_FRAMING // 4)):
        outcome = outcome_of(*((HEAD + data)[at : at + 10_000] for at in range(0, len(data), 10_000)))
        assert isinstance(outcome.answer, HttpError) and str(outcome.answer) == "too many bytes of headers"
    outcome = outcome_of(HEAD + twice + b"No colon\r\n\r\n")
    assert str(outcome.answer).startswith("not HTTP: Invalid header token")


def test_a_body_is_taken_piece_by_piece() -> None:
    """That of a success; of another response nothing is kept."""
    long, parts = HEAD + b"Content-Length: 1000\r\n\r\n" + b"x" * 1000, list[bytes]()
    packets = [long[at : at + 50] for at in range(0, len(long), 50)]
    assert response_of(*packets, take=parts.append).body == b""
    assert b"".join(parts) == b"x" * 1000 and len(parts) > 10
    parts.clear()
    assert response_of(long.replace(b"200", b"302"), take=parts.append).status == 302 and parts == []
    assert isinstance(outcome_of(long.replace(b"1000", b"1001"), take=parts.append).answer, BodyTooLargeError)


@pytest.mark.parametrize(
    ("data", "status", "is_open"),
    [
        (HELLO, 200, True),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", 200, False),
        (b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n", 200, True),
        (HEAD + b"Connection: close\r\nContent-Length: 0\r\n\r\n", 200, False),
        (b"HTTP/1.1 204 No Content\r\n\r\n", 204, True),
        (b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", 101, False),
    ],
)
def test_when_a_connection_is_kept(data: bytes, status: int, is_open: bool) -> None:
    outcome = outcome_of(data)
    assert isinstance(outcome.answer, Response)
    assert (outcome.answer.status, outcome.is_open) == (status, is_open)


TEXT = b"0123456789" * 120_000
SHORT = b"0123456789" * 50


def body_of(data: bytes, encoding: str | None, limit: int) -> bytes:
    return run_within(30, lambda: decompressed(bytearray(data), encoding or "", limit))


def test_which_encodings_compress_and_which_statuses_are_a_success() -> None:
    """[LHD29] A name that is none of a compression says nothing: some servers put a character set there."""
    assert [status for status in (101, 200, 204, 299, 300, 404) if is_success(status)] == [200, 204, 299]
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
    monkeypatch.setattr(connection, "PIECE", piece)
    monkeypatch.setattr(connection, "MAX_MEMBERS", 20)
    data = b"".join(gzip.compress(part, mtime=0) for part in (SHORT, b"", SHORT[::-1]))
    for rest in (b"", b"\0" * 9, b"x"):
        assert body_of(data + rest, "gzip", 1000) == SHORT + SHORT[::-1]
    with pytest.raises(BodyTooLargeError):
        body_of(data, "gzip", 999)
    with pytest.raises(BodyEncodingError, match="incomplete"):
        body_of(data[:-1], "gzip", 1000)
    with pytest.raises(BodyEncodingError, match="more than 20 members"):
        body_of(gzip.compress(b"", mtime=0) * 21, "gzip", 1000)


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
