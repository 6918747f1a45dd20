"""Raw HTTP servers over TCP and TLS, which answer by bytes, and clients of them."""

import asyncio
import contextlib
import re
import ssl
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest
from yarl import URL

from rollup_node.stages.io.http.client import HttpAnswer, HttpClient
from tests.support.processes.stage_runner import run_within
from tests.support.servers.certificates import certificate, client_context, server_context

HEAD = b"HTTP/1.1 200 OK\r\n"
OK = HEAD + b"Content-Length: 2\r\n\r\n{}"
LIMIT = 100_000


class Tls:
    """The contexts of the servers and clients of a test; None over TCP."""

    server: ssl.SSLContext | None = None
    client: ssl.SSLContext | None = None


@pytest.fixture(params=["http", "https"])
def scheme(request: pytest.FixtureRequest) -> Iterator[None]:
    """Has the servers of a test speak TLS, or not; modules whose tests are `over_both` import it."""
    if request.param == "https":
        authority = certificate("authority")
        Tls.server = server_context(certificate("server", authority))
        Tls.client = client_context(authority)
    yield
    Tls.server = Tls.client = None


over_both = pytest.mark.usefixtures("scheme")


class Server:
    """Answers each request on a connection by the next of its responses: bytes, or a function of the writer.

    Connections are numbered from 1; a closed one is in `closed`."""

    def __init__(self, *responses: bytes | Callable[[StreamWriter], Awaitable[None]]) -> None:
        self.requests: list[tuple[int, bytes]] = []
        self.closed: asyncio.Queue[int] = asyncio.Queue()
        self._responses = list(responses)
        self._connections = self._open = 0

    async def serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        """One connection."""
        self._connections += 1
        self._open += 1
        number = self._connections
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
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
        writer.close()
        self._open -= 1
        self.closed.put_nowait(number)

    async def end(self) -> None:
        """Wait until all connections are closed."""
        while self._open:
            await self.closed.get()


@contextlib.asynccontextmanager
async def url_of(server: Server, host: str = "127.0.0.1", user: str = "") -> AsyncIterator[URL]:
    """Serve; the URL of a resource."""
    listener = await asyncio.start_server(server.serve, host, 0, ssl=Tls.server)
    port, scheme = listener.sockets[0].getsockname()[1], "http" if Tls.server is None else "https"
    try:
        yield URL(f"{scheme}://{user}{f'[{host}]' if ':' in host else host}:{port}/a%20b?c=d#e")
    finally:
        listener.close()
        await server.end()


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
