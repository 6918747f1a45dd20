"""HTTP without TLS: idle connections are kept, an exchange costs a quarter of what aiohttp's client takes, whose import
takes 0.2 s. Bounded in time and bytes, and in connections by the exchanges at a time [LHD2]."""

import asyncio
import base64
import ipaddress
import socket
from collections.abc import Callable, Mapping
from itertools import chain
from typing import Any, NamedTuple

import aiohappyeyeballs
from yarl import URL

from rollup_node.stages.io.http.endpoint_errors import (
    AnswerTooLargeError,
    EndpointError,
    NoAnswerError,
    why_broken,
    why_not_connected,
)
from rollup_node.stages.io.http.http_body import BodyEncodingError, BodyTooLargeError, decompressed
from rollup_node.stages.io.http.http_connection import (
    DeadlineError,
    HttpConnection,
    HttpError,
    Response,
    ServerDisconnectedError,
)
from rollup_node.stages.io.http.http_status import raise_for_status

HAPPY_EYEBALLS_DELAY = 0.25
"""Seconds until the next address of a host is tried as well (RFC 8305)."""

OK = 200


class HttpAnswer(NamedTuple):
    """The answer to a request, decompressed. The names of `headers` are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class PlainHttp:
    """Connections to the server of a URL, over which exchanges go one after another, each over one of its own."""

    def __init__(self, url: URL, name: str) -> None:
        self.name = name
        self._url = url
        self._idle: list[HttpConnection] = []
        self._open: set[HttpConnection] = set()

    async def exchange(self, head: bytes, body: bytes, timeout: float, max_answer: int) -> HttpAnswer:
        """The answer to a request, of any status. Raises EndpointError and AnswerTooLargeError."""
        deadline = asyncio.get_running_loop().time() + timeout
        try:
            try:
                response = await self._send(head, body, max_answer, deadline)
            # The server closed the idle connection while the request was on its way.
            except ServerDisconnectedError:
                self._close_idle()
                response = await self._send(head, body, max_answer, deadline)
            encoding = response.headers.get("content-encoding", "")
            return HttpAnswer(
                response.status, response.headers, await decompressed(response.body, encoding, max_answer)
            )
        except BodyTooLargeError as error:
            self._close_idle()
            raise AnswerTooLargeError(self.name, str(error)) from None
        except BodyEncodingError as error:
            self._close_idle()
            raise EndpointError(self.name, str(error)) from None
        except DeadlineError:
            raise NoAnswerError(self.name, timeout) from None
        except HttpError as error:
            raise EndpointError(self.name, f"the connection failed ({error})") from None
        except OSError as error:
            raise EndpointError(self.name, f"the connection failed ({why_broken(error)})") from None

    def lines(self, url: URL, *headers: Mapping[str, str]) -> str:
        """The lines of a request's head behind the first; headers replace ours, and those before them. Raises
        EndpointError for a header that is more than a line."""
        own = {
            "Host": url.host_port_subcomponent or "",
            "User-Agent": "rollup-node",
            "Accept": "application/json",
            "Accept-Encoding": "gzip",
        }
        if url.user is not None or url.password is not None:
            login = f"{url.user or ''}:{url.password or ''}".encode()
            own["Authorization"] = f"Basic {base64.b64encode(login).decode()}"
        lines: dict[str, tuple[str, str]] = {}
        for name, value in chain.from_iterable(given.items() for given in (own, *headers)):
            lines.pop(name.lower(), None)
            lines[name.lower()] = name, value
        if any(c in text for pair in lines.values() for text in pair for c in "\r\n\0"):
            raise EndpointError(self.name, "a header of the request has a line break")
        return "".join(f"{name}: {value}\r\n" for name, value in lines.values())

    async def close(self) -> None:
        """Closes the connections, and requests in flight fail; another exchange opens new ones."""
        for connection in self._open:
            connection.close()
        self._idle.clear()
        self._open.clear()
        # The sockets are closed in the next round of the event loop.
        await asyncio.sleep(0)

    async def _send(self, head: bytes, body: bytes, max_answer: int, deadline: float) -> Response:
        connection = self._idle_connection() or await self._connect(deadline)
        try:
            response = await connection.exchange(head, body, max_answer, deadline)
        except BaseException:
            connection.abort()
            self._open.discard(connection)
            raise
        if connection.is_open:
            self._idle.append(connection)
        else:
            self._open.discard(connection)
        return response

    def _idle_connection(self) -> HttpConnection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_open:
                return connection
            self._open.discard(connection)
        return None

    def _close_idle(self) -> None:
        for connection in self._idle:
            connection.close()
        self._open.difference_update(self._idle)
        self._idle.clear()

    async def _connect(self, deadline: float) -> HttpConnection:
        """An open connection. Raises EndpointError."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout_at(deadline):
                try:
                    addresses = await self._addresses()
                    found = await aiohappyeyeballs.start_connection(
                        addresses, happy_eyeballs_delay=HAPPY_EYEBALLS_DELAY, interleave=1
                    )
                    _, connection = await loop.create_connection(HttpConnection, sock=found)
                except OSError as error:
                    raise EndpointError(self.name, f"cannot connect ({why_not_connected(error)})") from None
                except UnicodeError:
                    raise EndpointError(self.name, "cannot connect (the host name is invalid)") from None
        except TimeoutError:
            raise EndpointError(self.name, "cannot connect (no answer in time)") from None
        self._open.add(connection)
        return connection

    async def _addresses(self) -> list[Any]:
        """The addresses of the host, as getaddrinfo returns them."""
        host, port = self._url.raw_host or "", self._url.port
        try:
            version = ipaddress.ip_address(host).version
        except ValueError:
            return await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        # No thread is started to look up what is an address already.
        if version == 4:
            return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host, port))]
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)


class PlainHttpTransport:
    """The transport of JSON-RPC without TLS: exchanges bodies with one endpoint. `headers` is called for every request;
    see JsonRpcClient."""

    def __init__(self, url: str, name: str, headers: Callable[[], Mapping[str, str]] | None) -> None:
        self.name = name
        self._url = URL(url)
        self._http = PlainHttp(self._url, name)
        self._headers = headers
        self._used_headers: Mapping[str, str] | None = None
        self._head = b""

    async def exchange(self, body: bytes, timeout: float, max_answer: int) -> bytes:
        """The body of the response to a request. Raises EndpointError, AnswerTooLargeError and RpcFailure."""
        answer = await self._http.exchange(self._request_head(len(body)), body, timeout, max_answer)
        if answer.status != OK:
            raise_for_status(self.name, answer.status, answer.body, answer.headers.get("retry-after", ""))
        return answer.body

    async def close(self) -> None:
        """Closes the connections, and requests in flight fail; another exchange opens new ones."""
        await self._http.close()

    def _request_head(self, length: int) -> bytes:
        headers = self._headers() if self._headers is not None else {}
        if headers != self._used_headers:
            lines = self._http.lines(self._url, {"Content-Type": "application/json"}, headers)
            self._head = f"POST {self._url.raw_path_qs} HTTP/1.1\r\n{lines}Content-Length: ".encode()
            self._used_headers = dict(headers)
        return b"%b%d\r\n\r\n" % (self._head, length)


class PlainHttpReader:
    """Reads resources of the server of a URL; see HttpReader."""

    def __init__(self, url: URL, name: str, headers: Mapping[str, str]) -> None:
        self._http, self._headers = PlainHttp(url, name), headers

    async def get(self, url: URL, headers: Mapping[str, str], timeout: float, max_answer: int) -> HttpAnswer:
        """The answer for a URL of the server."""
        head = f"GET {url.raw_path_qs} HTTP/1.1\r\n{self._http.lines(url, self._headers, headers)}\r\n"
        return await self._http.exchange(head.encode(), b"", timeout, max_answer)

    async def close(self) -> None:
        """Closes the connections."""
        await self._http.close()
