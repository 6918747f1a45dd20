"""The HTTP server of the local network's programs, by the bytes on its connections."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from rollup_node.tools.devnet.serving import http_server
from rollup_node.tools.devnet.serving.http_server import Answer, HttpRequest, HttpResponse, HttpServer

Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter, HttpServer], Awaitable[None]]


async def echo(request: HttpRequest, came: asyncio.Event | None = None) -> HttpResponse:
    """What it was asked; an error at `/bug`, and at `/late` an answer after a while. `came` is set before it."""
    if request.path == "/bug":
        raise ValueError("a bug")
    if came is not None:
        came.set()
    if request.path == "/late":
        await asyncio.sleep(0.05)
    text = f"{request.method} {request.path} {request.query} {request.headers.get('x-name')} {request.body.decode()}"
    return HttpResponse(text.encode(), media="text/plain")


def play(script: Script, answer: Answer = echo) -> None:
    """A connection to a server."""

    async def run() -> None:
        server = HttpServer(answer, 0)
        await server.start()
        reader, writer = await asyncio.open_connection(server.host, server.port)
        try:
            async with asyncio.timeout(20):
                await script(reader, writer, server)
        finally:
            writer.close()
            await server.stop()

    asyncio.run(run())


async def response(reader: asyncio.StreamReader) -> tuple[int, bytes, bool]:
    """Status and body of the next response, and whether the connection stays open."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    headers = dict(line.lower().split(": ") for line in head[1:] if line)
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return int(head[0].split()[1]), body, headers.get("connection") != "close"


def test_requests_one_after_another() -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, server: HttpServer) -> None:
        assert server.url == f"http://127.0.0.1:{server.port}"
        for part in (b"GET /a%20b?c=%20d HT", b"TP/1.1\r\nX-Na", b"me: one\r\n\r\n"):
            writer.write(part)
            await asyncio.sleep(0)
        assert await response(reader) == (200, b"GET /a b c=%20d one ", True)
        writer.write(b"POST /late HTTP/1.1\r\nContent-Length: 4\r\n\r\nbody" + b"GET /next HTTP/1.1\r\n\r\n")
        assert await response(reader) == (200, b"POST /late  None body", True)
        assert await response(reader) == (200, b"GET /next  None ", True)
        writer.write(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n2\r\nab\r\n0\r\n\r\n")
        assert await response(reader) == (200, b"POST /  None ab", False)
        assert await reader.read() == b""

    play(script)


def test_a_client_that_asks_is_told_to_go_on() -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, server: HttpServer) -> None:
        writer.write(b"POST / HTTP/1.1\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
        assert await response(reader) == (100, b"", True)
        writer.write(b"ab")
        assert await response(reader) == (200, b"POST /  None ab", True)

    play(script)


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"nothing that is HTTP\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nX-Name: " + b"x" * (64 << 10), 431),
        (b"POST / HTTP/1.1\r\nContent-Length: 40\r\n\r\n" + b"x" * 40, 413),
    ],
)
def test_what_is_no_request_ends_the_connection(monkeypatch: pytest.MonkeyPatch, sent: bytes, status: int) -> None:
    monkeypatch.setattr(http_server, "MAX_BODY", 30)

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, server: HttpServer) -> None:
        writer.write(sent)
        assert await response(reader) == (status, b"", False)
        assert await reader.read() == b""

    play(script)


def test_a_bug_is_an_answer(capsys: pytest.CaptureFixture[str]) -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, server: HttpServer) -> None:
        writer.write(b"GET /bug HTTP/1.1\r\n\r\n")
        assert await response(reader) == (500, b"", True)
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        assert (await response(reader))[0] == 200

    play(script)
    assert "a bug" in capsys.readouterr().err


def test_the_end_waits_for_answers_and_closes_all_connections() -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, server: HttpServer) -> None:
        idle, theirs = await asyncio.open_connection(server.host, server.port)
        writer.write(b"GET /late HTTP/1.1\r\n\r\n")
        await came.wait()
        await server.stop()
        assert await response(reader) == (200, b"GET /late  None ", False)
        assert await reader.read() == await idle.read() == b""
        theirs.close()
        with pytest.raises(OSError):
            await asyncio.open_connection(server.host, server.port)

    came = asyncio.Event()
    play(script, partial(echo, came=came))


def test_an_answer_that_takes_too_long_is_given_up_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "STOP_SECONDS", 0.0)

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, server: HttpServer) -> None:
        writer.write(b"GET /late HTTP/1.1\r\n\r\n")
        await came.wait()
        await server.stop()
        assert await reader.read() == b""

    came = asyncio.Event()
    play(script, partial(echo, came=came))


def test_a_port_in_use() -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, server: HttpServer) -> None:
        with pytest.raises(OSError):
            await HttpServer(echo, server.port).start()

    play(script)
