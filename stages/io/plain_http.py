"""The transport of JSON-RPC over HTTP without TLS: idle connections are kept, an exchange costs a quarter of
what aiohttp's client takes. Bounded in time and bytes, and in connections by the exchanges at a time [LHD2]."""

import asyncio
import base64
import ipaddress
import socket
from collections.abc import Callable, Mapping
from typing import Any

import aiohappyeyeballs
from yarl import URL

from rollup_node.stages.io.endpoint_errors import (
    AnswerTooLargeError,
    EndpointError,
    why_broken,
    why_not_connected,
)
from rollup_node.stages.io.http_body import BodyEncodingError, BodyTooLargeError, decompressed
from rollup_node.stages.io.http_connection import (
    DeadlineError,
    HttpConnection,
    HttpError,
    Response,
    ServerDisconnectedError,
)
from rollup_node.stages.io.http_status import raise_for_status

HAPPY_EYEBALLS_DELAY = 0.25
"""Seconds until the next address of a host is tried as well (RFC 8305)."""

OK = 200


class PlainHttpTransport:
    """Exchanges bodies with one endpoint, over as many connections as there are exchanges at a time. `headers` is
    called for every request; see JsonRpcClient."""

    def __init__(self, url: str, name: str, headers: Callable[[], Mapping[str, str]] | None) -> None:
        self.name = name
        self._url = URL(url)
        self._headers = headers
        self._used_headers: Mapping[str, str] | None = None
        self._head = b""
        self._idle: list[HttpConnection] = []
        self._open: set[HttpConnection] = set()

    async def exchange(self, body: bytes, timeout: float, max_answer: int) -> bytes:
        """The body of the response to a request. Raises EndpointError, AnswerTooLargeError and RpcFailure."""
        deadline = asyncio.get_running_loop().time() + timeout
        try:
            try:
                response = await self._send(body, max_answer, deadline)
            # The server closed the idle connection while the request was on its way.
            except ServerDisconnectedError:
                self._close_idle()
                response = await self._send(body, max_answer, deadline)
            answer = await decompressed(response.body, response.encoding, max_answer)
        except BodyTooLargeError as error:
            self._close_idle()
            raise AnswerTooLargeError(self.name, str(error)) from None
        except BodyEncodingError as error:
            self._close_idle()
            raise EndpointError(self.name, str(error)) from None
        except DeadlineError:
            raise EndpointError(self.name, f"no answer within {timeout:g} s") from None
        except HttpError as error:
            raise EndpointError(self.name, f"the connection failed ({error})") from None
        except OSError as error:
            raise EndpointError(self.name, f"the connection failed ({why_broken(error)})") from None
        if response.status != OK:
            raise_for_status(self.name, response.status, answer, response.retry_after)
        return answer

    async def close(self) -> None:
        """Closes the connections, and requests in flight fail; another exchange opens new ones."""
        for connection in self._open:
            connection.close()
        self._idle.clear()
        self._open.clear()
        # The sockets are closed in the next round of the event loop.
        await asyncio.sleep(0)

    async def _send(self, body: bytes, max_answer: int, deadline: float) -> Response:
        head = self._request_head(len(body))
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
        """An open connection. Raises EndpointError and DeadlineError."""
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
        except TimeoutError:
            raise DeadlineError from None
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

    def _request_head(self, length: int) -> bytes:
        headers = self._headers() if self._headers is not None else {}
        if headers != self._used_headers:
            self._head = self._encoded_head(headers)
            self._used_headers = dict(headers)
        return b"%b%d\r\n\r\n" % (self._head, length)

    def _encoded_head(self, headers: Mapping[str, str]) -> bytes:
        """The head of a request up to its length. Raises EndpointError for a header that is more than a line."""
        url = self._url
        lines = {
            "Host": url.host_port_subcomponent or "",
            "User-Agent": "rollup-node",
            "Accept": "application/json",
            "Accept-Encoding": "gzip",
            "Content-Type": "application/json",
        }
        if url.user is not None or url.password is not None:
            login = f"{url.user or ''}:{url.password or ''}".encode()
            lines["Authorization"] = f"Basic {base64.b64encode(login).decode()}"
        given = {name.lower() for name in headers}
        lines = {name: value for name, value in lines.items() if name.lower() not in given} | dict(headers)
        if any(c in text for pair in lines.items() for text in pair for c in "\r\n\0"):
            raise EndpointError(self.name, "a header of the request has a line break")
        text = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        return f"POST {url.raw_path_qs} HTTP/1.1\r\n{text}Content-Length: ".encode()
