"""A JSON-RPC 2.0 client over HTTP: one keep-alive session, bounded in concurrency, rate, time and bytes
[LHD2, LHD16, LHD17].

Error texts show host and port of an endpoint alone: the rest of its URL may hold credentials.
"""

import asyncio
import os
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from io import BytesIO
from typing import Any, TypeVar

import aiohttp
import msgspec
import orjson
from yarl import URL

from rollup_node.stages.io.http_body import BodyEncodingError, BodyTooLargeError, read_body
from rollup_node.stages.io.json_answers import Call, batch_limit, decode_answer, decode_batch, failure_in
from rollup_node.stages.io.json_answers import RpcFailure as RpcFailure
from rollup_node.stages.protocol.answer_limits import AnswerLimit, answer_limit
from rollup_node.stages.protocol.foreign_json import MalformedJsonError, one_line, shown_body

T = TypeVar("T")

SHORT_BODY = 1024
"""A response of at most so many bytes is decoded even if the caller wants it raw, as it may be an error."""

LARGE_BODY = 64 << 10
"""A request of more bytes is sent in pieces, so that it does not block the event loop."""


class EndpointError(Exception):
    """The endpoint does not answer in time, or answers something else than JSON-RPC. `status` is the HTTP status, if
    there was one; `retry_after` are the seconds of its Retry-After header."""

    def __init__(self, endpoint: str, text: str, status: int | None = None, retry_after: float | None = None) -> None:
        super().__init__(f"{endpoint}: {one_line(text)}")
        self.endpoint = endpoint
        self.status = status
        self.retry_after = retry_after


class AnswerTooLargeError(EndpointError):
    """The answer is longer than the limit of its method."""


class RateLimiter:
    """A token bucket: `rate` tokens a second, at most `burst` of them saved up; a rate of 0 is no limit [LHD16]."""

    def __init__(self, rate: float, burst: int) -> None:
        self._rate = rate
        self._burst = float(max(burst, 1))
        self._tokens = self._burst
        self._at: float | None = None

    def take(self, count: int, now: float) -> float:
        """Takes `count` tokens, into debt if necessary; the seconds to wait until that is paid."""
        if self._rate <= 0:
            return 0.0
        if self._at is not None:
            self._tokens = min(self._burst, self._tokens + (now - self._at) * self._rate)
        self._at = now
        self._tokens -= count
        return max(0.0, -self._tokens / self._rate)


def endpoint_name(url: str) -> str:
    """Host and port of a URL, for logs and errors."""
    try:
        parsed = URL(url)
        return f"{parsed.host}:{parsed.port}" if parsed.host else "endpoint without a host"
    except ValueError:
        return "malformed endpoint"


class JsonRpcClient:
    """Calls one endpoint, from one event loop.

    `headers` is called for every request, so that tokens are fresh. `timeout` is in seconds per HTTP request, twice
    that for a batch; `rate_limit` in calls a second, where a batch counts as many as it holds. Answers are limited by
    method (`answer_limit`), and to `max_body` bytes. `tls` is called for every request, for the context of `https`
    connections instead of the default one; another context than before means another connection, and its errors are
    passed on."""

    def __init__(
        self,
        url: str,
        *,
        timeout: float = 10.0,
        headers: Callable[[], Mapping[str, str]] | None = None,
        max_concurrency: int = 10,
        max_batch: int = 20,
        rate_limit: float = 0.0,
        max_body: int | None = None,
        tls: Callable[[], ssl.SSLContext] | None = None,
    ) -> None:
        self.name = endpoint_name(url)
        self._url = url
        self._timeout = timeout
        self._headers = headers
        self._max_concurrency = max(1, max_concurrency)
        self._max_batch = max(1, max_batch)
        self._max_body = max_body
        self._tls = tls
        self._limiter = RateLimiter(rate_limit, self._max_batch)
        self._slots = asyncio.Semaphore(self._max_concurrency)
        self._session: aiohttp.ClientSession | None = None
        self._last_id = 0

    async def call(self, method: str, *params: Any, timeout: float | None = None) -> Any:
        """The result of one call. Raises RpcFailure if the server answers with an error, EndpointError if it does not
        answer."""
        return await self.call_typed(Any, method, *params, timeout=timeout)

    async def call_typed(self, shape: Any, method: str, *params: Any, timeout: float | None = None) -> Any:
        """As `call`, with the result decoded to a type that msgspec knows; EndpointError if it is not of that type."""
        request_id, body = self._request(method, params)
        limit = answer_limit(method, params)
        answer = await self._post(body, 1, timeout or self._timeout, limit)
        return self._checked(lambda: decode_answer(answer, request_id, method, shape, limit))

    async def call_raw(
        self, method: str, *params: Any, timeout: float | None = None, limit: AnswerLimit | None = None
    ) -> bytes:
        """The whole body of the response, not decoded unless it is at most SHORT_BODY long; `limit` instead of that of
        the method. Raises as `call`, and AnswerTooLargeError."""
        request_id, body = self._request(method, params)
        limit = limit or answer_limit(method, params)
        answer = await self._post(body, 1, timeout or self._timeout, limit)
        if len(answer) <= SHORT_BODY:
            self._checked(lambda: decode_answer(answer, request_id, method, msgspec.Raw, limit))
        return answer

    async def batch(self, calls: Sequence[Call], shape: Any = Any, limit: AnswerLimit | None = None) -> list[Any]:
        """Results of type `shape` and RpcFailures in the order of the calls, which are sent in batches of at most
        `max_batch`; `limit` of a batch instead of that of the method. Raises RpcFailure if a batch is refused as a
        whole, and EndpointError."""
        parts = [calls[i : i + self._max_batch] for i in range(0, len(calls), self._max_batch)]
        results = await _all_or_none([self._batch_part(part, shape, limit or batch_limit(part)) for part in parts])
        return [result for part in results for result in part]

    async def close(self) -> None:
        """Closes the connections; another call opens new ones."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _request(self, method: str, params: Sequence[Any]) -> tuple[int, bytes]:
        self._last_id += 1
        request = {"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": list(params)}
        return self._last_id, orjson.dumps(request)

    async def _batch_part(self, calls: Sequence[Call], shape: Any, limit: AnswerLimit) -> list[Any]:
        requests = [self._request(method, params) for method, params in calls]
        body = b"[" + b",".join(request for _, request in requests) + b"]"
        answer = await self._post(body, len(calls), 2 * self._timeout, limit)
        ids = [request_id for request_id, _ in requests]
        return self._checked(lambda: decode_batch(answer, ids, calls, shape, limit))

    def _checked(self, decode: Callable[[], T]) -> T:
        """What a function decodes. Raises EndpointError instead of MalformedJsonError."""
        try:
            return decode()
        except MalformedJsonError as error:
            text = str(error)
        # Outside of the handler: as its context the first error would keep the body in memory.
        raise EndpointError(self.name, text)

    async def _post(self, body: bytes, tokens: int, timeout: float, limit: AnswerLimit) -> bytes:
        most = limit.bytes if self._max_body is None else min(limit.bytes, self._max_body)
        async with self._slots:
            wait = self._limiter.take(tokens, time.monotonic())
            if wait > 0:
                await asyncio.sleep(wait)
            try:
                async with asyncio.timeout(timeout):
                    return await self._exchange(body, most)
            except TimeoutError:
                raise EndpointError(self.name, f"no answer within {timeout:g} s") from None

    async def _exchange(self, body: bytes, max_body: int) -> bytes:
        """One request, sent again if its idle connection turns out to be closed by the server."""
        try:
            try:
                return await self._send(body, max_body)
            # The server closed the idle connection while the request was on its way.
            except aiohttp.ServerDisconnectedError:
                return await self._send(body, max_body)
        except BodyTooLargeError as error:
            raise AnswerTooLargeError(self.name, str(error)) from None
        except BodyEncodingError as error:
            raise EndpointError(self.name, str(error)) from None
        except aiohttp.ClientConnectorError as error:
            raise EndpointError(self.name, f"cannot connect ({why_not_connected(error.os_error)})") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise EndpointError(self.name, f"the connection failed ({why_broken(error)})") from None

    async def _send(self, body: bytes, max_body: int) -> bytes:
        headers = {"Content-Type": "application/json", **(self._headers() if self._headers else {})}
        data = body if len(body) <= LARGE_BODY else BytesIO(body)
        tls = self._tls() if self._tls else True
        async with self._open().post(self._url, data=data, headers=headers, allow_redirects=False, ssl=tls) as response:
            # The body is read even of an error: it may hold an error object.
            answer = await read_body(response, max_body)
            if response.status != 200:
                self._raise_for_status(response, answer)
            return answer

    def _raise_for_status(self, response: aiohttp.ClientResponse, body: bytes) -> None:
        """Raises RpcFailure for an error object in the body, unless the status says that the server is overloaded or
        broken, and EndpointError otherwise."""
        status = response.status
        if status != 429 and status < 500 and (failure := failure_in(body)) is not None:
            raise failure
        text = f"HTTP status {status}" + (f": {shown_body(body)}" if body else "")
        raise EndpointError(self.name, text, status, _seconds(response.headers.get("Retry-After")))

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=self._max_concurrency, keepalive_timeout=30),
                timeout=aiohttp.ClientTimeout(total=None),
                auto_decompress=False,
                headers={"Accept": "application/json", "Accept-Encoding": "gzip"},
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session


async def _all_or_none(work: Sequence[Awaitable[T]]) -> list[T]:
    """All results in order; the first error cancels the rest."""
    tasks = [asyncio.ensure_future(item) for item in work]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def why_not_connected(error: OSError) -> str:
    """The system's text for a connection that could not be opened, or that of TLS."""
    if isinstance(error, ssl.SSLError):
        return tls_reason(error)
    return os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or type(error).__name__


def why_broken(error: BaseException) -> str:
    """The reason of a connection that broke: that of TLS if it has one, since a server that refuses our certificate
    says so after the handshake, else that of the system, or the name of the error."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLError):
            return tls_reason(cause)
        cause = cause.__cause__ or cause.__context__
    return os.strerror(error.errno) if isinstance(error, OSError) and error.errno else type(error).__name__


def tls_reason(error: ssl.SSLError) -> str:
    """Why TLS failed, in the words of OpenSSL."""
    if isinstance(error, ssl.SSLCertVerificationError) and error.verify_message:
        return f"TLS: certificate not accepted, {error.verify_message}"
    # An error that Python makes has no reason.
    text = getattr(error, "reason", None) or str(error.args[-1] if error.args else "").partition(" (_ssl")[0]
    return f"TLS: {text.replace('_', ' ').lower() or 'no reason given'}"


def _seconds(header: str | None) -> float | None:
    """The seconds of a Retry-After header; None if it holds a date."""
    return float(header) if header is not None and header.isascii() and header.isdigit() else None
