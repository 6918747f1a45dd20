"""The transport of JSON-RPC over HTTPS: one keep-alive session, bounded in connections, time and bytes [LHD2]."""

import asyncio
import ssl
from collections.abc import Callable, Mapping
from io import BytesIO

import aiohttp

from rollup_node.stages.io.http.aiohttp_errors import endpoint_errors
from rollup_node.stages.io.http.endpoint_errors import EndpointError
from rollup_node.stages.io.http.http_body import read_body
from rollup_node.stages.io.http.http_status import raise_for_status

LARGE_BODY = 64 << 10
"""A request of more bytes is sent in pieces, so that it does not block the event loop."""


class HttpTransport:
    """Exchanges bodies with one endpoint. `headers` and `tls` are called for every request; see JsonRpcClient."""

    def __init__(
        self,
        url: str,
        name: str,
        headers: Callable[[], Mapping[str, str]] | None,
        tls: Callable[[], ssl.SSLContext] | None,
        max_connections: int,
    ) -> None:
        self.name = name
        self._url = url
        self._headers, self._tls = headers, tls
        self._max_connections = max_connections
        self._session: aiohttp.ClientSession | None = None

    async def exchange(self, body: bytes, timeout: float, max_answer: int) -> bytes:
        """The body of the response to a request. Raises EndpointError, AnswerTooLargeError and RpcFailure."""
        try:
            async with asyncio.timeout(timeout):
                return await self._exchange(body, max_answer)
        except TimeoutError:
            raise EndpointError(self.name, f"no answer within {timeout:g} s") from None

    async def close(self) -> None:
        """Closes the connections; another exchange opens new ones."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _exchange(self, body: bytes, max_answer: int) -> bytes:
        """One request, sent again if its idle connection turns out to be closed by the server."""
        with endpoint_errors(self.name):
            try:
                return await self._send(body, max_answer)
            # The server closed the idle connection while the request was on its way.
            except aiohttp.ServerDisconnectedError:
                return await self._send(body, max_answer)

    async def _send(self, body: bytes, max_answer: int) -> bytes:
        headers = {"Content-Type": "application/json", **(self._headers() if self._headers else {})}
        data = body if len(body) <= LARGE_BODY else BytesIO(body)
        tls = self._tls() if self._tls else True
        async with self._open().post(self._url, data=data, headers=headers, allow_redirects=False, ssl=tls) as response:
            # The body is read even of an error: it may hold an error object.
            answer = await read_body(response, max_answer)
            if response.status != 200:
                raise_for_status(self.name, response.status, answer, response.headers.get("Retry-After", ""))
            return answer

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=self._max_connections, keepalive_timeout=30),
                timeout=aiohttp.ClientTimeout(total=None),
                auto_decompress=False,
                headers={"Accept": "application/json", "Accept-Encoding": "gzip"},
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session
