"""A small HTTP/1.1 server: llhttp parses, one function answers. The programs of a local network start in half the time
that they take with aiohttp."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import NamedTuple
from urllib.parse import unquote

import httptools

from rollup_node.stages.io.accepting import stop_accepting
from rollup_node.stages.io.log import get_logger

log = get_logger("http")

MAX_BODY = 128 << 20
MAX_HEAD = 64 << 10
STOP_SECONDS = 1.0


class HttpRequest(NamedTuple):
    """A request. The path is decoded, the query is not; names of headers are in lower case."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes


class HttpResponse(NamedTuple):
    """A response; `media` is the type of its body."""

    body: bytes = b""
    status: int = 200
    media: str = "application/json"


Answer = Callable[[HttpRequest], Awaitable[HttpResponse]]
"""Answers a request; what it raises is a bug."""


class HttpServer:
    """Serves `answer` on a port. For port 0 a free one is chosen, and `url` and `port` have it once started."""

    def __init__(self, answer: Answer, port: int, host: str = "127.0.0.1") -> None:
        self._answer = answer
        self.host = host
        self.port = port
        self._server: asyncio.Server | None = None
        self._connections: set[_Connection] = set()

    @property
    def url(self) -> str:
        """The HTTP URL."""
        return f"http://{self.host}:{self.port}"

    async def start(self) -> None:
        """Binds the port. Raises OSError where it is in use."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: _Connection(self._answer, self._connections), self.host, self.port
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Closes the port and all connections, those that wait for an answer at most STOP_SECONDS later."""
        if self._server is None:
            return
        await stop_accepting(self._server)
        answering = [task for connection in self._connections if (task := connection.close_after_answers())]
        if answering:
            await asyncio.wait(answering, timeout=STOP_SECONDS)
        for connection in tuple(self._connections):
            connection.abort()
        for task in answering:
            task.cancel()
        await asyncio.gather(*answering, return_exceptions=True)


class _Connection(asyncio.Protocol):
    """A connection, whose requests are answered one after another."""

    def __init__(self, answer: Answer, connections: "set[_Connection]") -> None:
        self._answer, self._connections = answer, connections
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._waiting: deque[tuple[HttpRequest, bool]] = deque()
        self._task: asyncio.Task[None] | None = None
        self._refusal = HTTPStatus.OK
        self._is_closing = False
        self._begin()

    def close_after_answers(self) -> asyncio.Task[None] | None:
        """Closes the connection once its requests are answered, which the task does; None if it is closed."""
        self._is_closing = True
        if self._task is None:
            self._close()
        return self._task

    def abort(self) -> None:
        """Closes the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    # --- events of the connection --------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is open."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._connections.add(self)

    def data_received(self, data: bytes) -> None:
        """Some bytes of a request."""
        if self._refusal is not HTTPStatus.OK:
            return
        self._head_size += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._refuse(HTTPStatus.BAD_REQUEST)
        if self._head_size > MAX_HEAD:
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        if self._refusal is not HTTPStatus.OK:
            self._write(HttpResponse(status=self._refusal), keeps_alive=False)

    def connection_lost(self, error: Exception | None) -> None:
        """The connection is closed. A request that is being answered goes on, as its caller may not know."""
        self._transport = None
        self._waiting.clear()
        self._connections.discard(self)
        # The parser and its callbacks refer to each other.
        del self._parser

    # --- events of the parser, which must not raise ----------------------------------------------------------------

    def on_url(self, url: bytes) -> None:
        """Some bytes of the target."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header."""
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """The head is complete; a client that asks is told to go on."""
        if "100-continue" in self._headers.get("expect", "").lower() and self._transport is not None:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, data: bytes) -> None:
        """Some bytes of the body."""
        self._head_size -= len(data)
        self._body_size += len(data)
        if self._body_size > MAX_BODY:
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        else:
            self._body.append(data)

    def on_message_complete(self) -> None:
        """The request is complete."""
        target, _, query = self._url.decode("latin-1").partition("?")
        method = self._parser.get_method().decode("latin-1")
        request = HttpRequest(method, unquote(target), query, self._headers, b"".join(self._body))
        self._waiting.append((request, self._parser.should_keep_alive()))
        self._begin()
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._respond())

    # --- requests --------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        self._url = b""
        self._headers: dict[str, str] = {}
        self._body: list[bytes] = []
        self._head_size = self._body_size = 0

    def _refuse(self, status: HTTPStatus) -> None:
        if self._refusal is HTTPStatus.OK:
            self._refusal = status

    async def _respond(self) -> None:
        while self._waiting:
            request, keeps_alive = self._waiting.popleft()
            try:
                response = await self._answer(request)
            except Exception as error:  # the client must not wait for ever
                log.crash("request failed", error, path=request.path)
                response = HttpResponse(status=HTTPStatus.INTERNAL_SERVER_ERROR)
            self._write(response, keeps_alive and not (self._is_closing and not self._waiting))
        self._task = None

    def _write(self, response: HttpResponse, keeps_alive: bool) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        phrase = HTTPStatus(response.status).phrase
        head = f"HTTP/1.1 {response.status} {phrase}\r\nContent-Type: {response.media}\r\n"
        head += f"Content-Length: {len(response.body)}\r\n" + ("" if keeps_alive else "Connection: close\r\n") + "\r\n"
        self._transport.write(head.encode("latin-1") + response.body)
        if not keeps_alive:
            self._close()

    def _close(self) -> None:
        if self._transport is not None:
            self._transport.close()
