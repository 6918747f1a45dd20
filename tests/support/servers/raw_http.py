"""Raw HTTP servers over TCP and TLS, which answer by bytes, and clients of them."""

import asyncio
import contextlib
import functools
import gzip
import re
import ssl
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest
from yarl import URL

from rollup_node.stages.io.http.client import HttpAnswer, HttpClient
from tests.support.processes.stage_runner import run_within
from tests.support.servers.certificates import BEHIND_A_PROXY, certificate, client_context, server_context

HEAD = b"HTTP/1.1 200 OK\r\n"
OK = HEAD + b"Content-Length: 2\r\n\r\n{}"
LIMIT = 100_000


class Tls:
    """The contexts of the servers and clients of a test; None over TCP."""

    server: ssl.SSLContext | None = None
    client: ssl.SSLContext | None = None


@functools.cache
def contexts() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Return those of a server and of a client that trusts it."""
    authority = certificate("authority")
    return server_context(certificate("server", authority)), client_context(authority)


@pytest.fixture(params=["http", "https"])
def scheme(request: pytest.FixtureRequest) -> Iterator[None]:
    """Has the servers of a test speak TLS, or not; the tests that are `over_both`."""
    if request.param == "https":
        Tls.server, Tls.client = contexts()
    yield
    Tls.server = Tls.client = None


over_both = pytest.mark.usefixtures("scheme")


Serve = Callable[[StreamReader, StreamWriter], Awaitable[None]]


@contextlib.asynccontextmanager
async def serving(serve: Serve, context: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> AsyncIterator[int]:
    """Yield the port of a server, over TLS if it has a context; wait until its connections have ended."""
    connections: set[asyncio.Task[None] | None] = set()

    async def connected(reader: StreamReader, writer: StreamWriter) -> None:
        connections.add(asyncio.current_task())
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await serve(reader, writer)
        writer.close()

    listener = await asyncio.start_server(connected, host, 0, ssl=context)
    try:
        yield listener.sockets[0].getsockname()[1]
    finally:
        listener.close()
        await asyncio.gather(*(task for task in connections if task is not None), return_exceptions=True)
        await asyncio.sleep(0)


class Server:
    """Answers each request on a connection by the next of its responses: bytes, or a function of the writer.

    Connections are numbered from 1; a closed one is in `closed`."""

    def __init__(self, *responses: bytes | Callable[[StreamWriter], Awaitable[None]]) -> None:
        self.requests: list[tuple[int, bytes]] = []
        self.closed: asyncio.Queue[int] = asyncio.Queue()
        self._responses = list(responses)
        self._connections = 0

    async def serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        """One connection."""
        self._connections += 1
        number = self._connections
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = re.search(rb"content-length: (\d+)", head.lower())
                body = await reader.readexactly(int(length[1])) if length is not None else b""
                self.requests.append((number, head + body))
                response = self._responses.pop(0)
                if isinstance(response, bytes):
                    writer.write(response)
                else:
                    await response(writer)
        finally:
            self.closed.put_nowait(number)


@contextlib.asynccontextmanager
async def url_of(server: Server, host: str = "127.0.0.1", user: str = "") -> AsyncIterator[URL]:
    """Serve; the URL of a resource."""
    scheme = "http" if Tls.server is None else "https"
    async with serving(server.serve, Tls.server, host) as port:
        yield URL(f"{scheme}://{user}{f'[{host}]' if ':' in host else host}:{port}/a%20b?c=d#e")


@contextlib.asynccontextmanager
async def client_of(server: Server, headers: Any = None, **options: Any) -> AsyncIterator[HttpClient]:
    async with url_of(server, **options) as url:
        client = HttpClient(url, "name", headers, tls)
        try:
            yield client
        finally:
            await client.close()


def tls() -> ssl.SSLContext:
    """Return the context of the client; any over TCP, which makes no use of it."""
    return Tls.client or ANY_CONTEXT


ANY_CONTEXT = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


async def ask(client: HttpClient, timeout: float = 20.0) -> bytes:
    """Return the body of the answer to a request."""
    return (await client.post(b"{}", timeout, LIMIT)).body


def answers(server: Server, count: int, **options: Any) -> list[bytes]:
    """Return the answers to requests one after another."""

    async def main() -> list[bytes]:
        async with client_of(server, **options) as client:
            return [await ask(client) for _ in range(count)]

    return run_within(30, main)


def got(server: Server, headers: dict[str, str], **options: Any) -> HttpAnswer:
    """Return the answer to a GET."""

    async def main() -> HttpAnswer:
        async with url_of(server, user="me:secret@") as url:
            client = HttpClient(url, "name", lambda: {"X-Key": "key", "accept": "text/html"}, tls)
            try:
                return await client.get(url / "x", headers, 20, LIMIT, **options)
            finally:
                await client.close()

    return run_within(30, main)


def odd_answers(body: bytes) -> dict[str, tuple[bytes, ...]]:
    """Return answers that say what a plain one with a body does, one after the other, each of which Go takes as well.

    Rules LHD28, LHD29."""
    length = b"Content-Length: %d\r\n" % len(body)
    named, half = body.replace(b'"id":1', b'"id":"1"'), len(body) // 2
    parts = gzip.compress(body[:half]), gzip.compress(body[half:])
    to = b"HTTP/1.1 308 Elsewhere\r\nLocation: /moved\r\nContent-Length: 0\r\n\r\n"
    plain = HEAD + length + b"\r\n" + body
    return {
        "plain": (plain,),
        "another success": (b"HTTP/1.1 203 Non-Authoritative Information\r\n" + length + b"\r\n" + body,),
        "id that is a text": (HEAD + b"Content-Length: %d\r\n\r\n%b" % (len(named), named),),
        "gzip": (HEAD + b"Content-Encoding: GZIP\r\nContent-Length: %d\r\n\r\n%b" % _sized(gzip.compress(body)),),
        "two members of gzip": (
            HEAD + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%b" % _sized(b"".join(parts)),
        ),
        "one length twice": (HEAD + length + length + b"\r\n" + body,),
        "folded header": (HEAD + b"Policy: default-src;\r\n  img-src *\r\n" + length + b"\r\n" + body,),
        "large header": (HEAD + b"X: %b\r\n" % (b"a" * 100_000) + length + b"\r\n" + body,),
        "many headers": (HEAD + b"X-Y: z\r\n" * 1000 + length + b"\r\n" + body,),
        "encoding that is none": (HEAD + b"Content-Encoding: utf-8\r\n" + length + b"\r\n" + body,),
        "identity": (HEAD + b"Content-Encoding: identity\r\n" + length + b"\r\n" + body,),
        "early hints": (b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + plain,),
        "chunks": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n%x;a=b\r\n%b\r\n0\r\nX: y\r\n\r\n" % _sized(body),),
        "redirect": (to, plain),
        "redirects": (*[to] * 10, plain),
    }


def _sized(body: bytes) -> tuple[int, bytes]:
    return len(body), body


class Proxy:
    """A proxy that passes everything on to a port, whichever server it is asked for; `heads` of its requests."""

    def __init__(self, port: int | None) -> None:
        self.heads: list[bytes] = []
        self._port = port

    async def serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        """One connection."""
        head = await reader.readuntil(b"\r\n\r\n")
        self.heads.append(head)
        up, server = await asyncio.open_connection("127.0.0.1", self._port)
        if head.startswith(b"CONNECT"):
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            server.write(head)
        await asyncio.gather(pass_on(reader, server), pass_on(up, writer))
        server.close()


@contextlib.asynccontextmanager
async def proxied(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, login: str = "", context: ssl.SSLContext | None = None
) -> AsyncIterator[int]:
    """Serve as a proxy that the environment names, over TLS if it has a context; its port."""
    async with serving(serve, context) as port:
        for name in ("http_proxy", "https_proxy"):
            monkeypatch.setenv(name, f"http{'s' if context else ''}://{login}127.0.0.1:{port}")
        yield port


@contextlib.asynccontextmanager
async def behind_proxy(
    server: Server, monkeypatch: pytest.MonkeyPatch, login: str = ""
) -> AsyncIterator[tuple[URL, Proxy]]:
    """Serve behind a proxy that the environment names; the URL of a resource, and the proxy."""
    async with url_of(server) as url:
        proxy = Proxy(url.port)
        async with proxied(proxy.serve, monkeypatch, login):
            yield url.with_host(BEHIND_A_PROXY), proxy


async def pass_on(reader: StreamReader, writer: StreamWriter) -> None:
    """Write what is read until one of both ends, then close the writer's connection."""
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.close()
