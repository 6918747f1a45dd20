"""The HTTP server of a race, at its socket."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from rollup_node.tools.bench.race.http_server import Answer, HttpConnection

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[bytes]]


def echo(target: bytes, head: bytes, body: bytes) -> Answer:
    return Answer([b"<", target, b" ", body, b">"], 404 if target == b"/missing" else 200)


def talk(conversation: Talk, latency: float = 0.0) -> bytes:
    async def run() -> bytes:
        server = await asyncio.get_running_loop().create_server(partial(HttpConnection, echo, latency), "127.0.0.1", 0)
        async with server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname()[:2])
            try:
                return await asyncio.wait_for(conversation(reader, writer), 20)
            finally:
                writer.close()

    return asyncio.run(run())


def request(target: bytes, body: bytes, more: bytes = b"") -> bytes:
    return b"POST %s HTTP/1.1\r\nHost: a\r\n%scontent-Length: %d\r\n\r\n%s" % (target, more, len(body), body)


def test_requests_in_pieces_and_several_at_once() -> None:
    async def conversation(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        whole = request(b"/a", b"one") + request(b"/missing", b"two") + b"GET /b HTTP/1.1\r\n\r\n"
        for at in range(0, 30, 10):
            writer.write(whole[at : at + 10])
            await writer.drain()
            await asyncio.sleep(0)
        writer.write(whole[30:] + request(b"/c", b"", b"Connection: close\r\n"))
        return await reader.read()

    found = talk(conversation)
    assert [line for line in found.split(b"\r\n") if line.startswith(b"<")] == [
        b"</a one>HTTP/1.1 404 Not Found",
        b"</missing two>HTTP/1.1 200 OK",
        b"</b >HTTP/1.1 200 OK",
        b"</c >",
    ]


def test_answers_take_their_latency_side_by_side() -> None:
    async def conversation(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        writer.write(b"".join(request(b"/", b"%d" % number) for number in range(20)))
        writer.write(request(b"/", b"last", b"Connection: close\r\n"))
        return await reader.read()

    began = time.monotonic()
    found = talk(conversation, latency=0.1)
    assert 0.1 <= time.monotonic() - began < 2.0
    assert [line.split(b">")[0] for line in found.split(b"</ ")[1:]] == [*(b"%d" % n for n in range(20)), b"last"]


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", b"411"),
        (b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", b"411"),
        (b"POST / HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n", b"413"),
        (b"x" * 70_000, b"431"),
        (b"nothing\r\n\r\n", b"400"),
    ],
)
def test_what_it_does_not_serve_ends_the_connection(sent: bytes, status: bytes) -> None:
    async def conversation(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        writer.write(sent)
        return await reader.read()

    assert talk(conversation).startswith(b"HTTP/1.1 " + status)
