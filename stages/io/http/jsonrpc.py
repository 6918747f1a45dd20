"""A JSON-RPC 2.0 client over HTTP, WebSocket or IPC, bounded in rate, time and bytes [LHD2, LHD16, LHD17, WSK1]."""

import asyncio
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NoReturn, TypeVar

import msgspec
import orjson
from yarl import URL

from rollup_node.stages.io.http import message_transport
from rollup_node.stages.io.http.client import HttpClient
from rollup_node.stages.io.http.connection import is_success
from rollup_node.stages.io.http.credentials import Credentials
from rollup_node.stages.io.http.endpoint_errors import (
    TOO_MANY_REQUESTS,
    AnswerTooLargeError,
    EndpointError,
    MalformedAnswerError,
    RpcFailure,
    endpoint_name,
    is_ipc,
    is_throttled,
    parsed_url,
    refuses_array,
)
from rollup_node.stages.io.http.ipc import IpcTransport
from rollup_node.stages.io.http.json_answers import (
    Call,
    batch_limit,
    decode_answer,
    decode_batch,
    failure_in,
    split_batch,
)
from rollup_node.stages.io.http.message_transport import MessageTransport
from rollup_node.stages.io.log.logger import Logger
from rollup_node.stages.protocol.answer_limits import AnswerLimit, answer_limit
from rollup_node.stages.protocol.foreign_json import MalformedJsonError, shown_body
from rollup_node.stages.protocol.pacing import TokenBucket

T = TypeVar("T")

SHORT_BODY = 1024
"""A response of at most so many bytes is decoded even if the caller wants it raw, as it may be an error."""
SINGLE_SECONDS = 600.0
"""How long an endpoint that refused an array is sent none [LHD30]."""

log = Logger("http")


class JsonRpcClient:
    """Calls one endpoint, from one event loop.

    `url` may be the path of a socket, which needs neither `headers` nor `tls`. These are called for every HTTP request
    and WebSocket handshake; another TLS context than before means another connection. `timeout` is in seconds per
    request, twice that for a batch; `rate_limit` in calls a second, each of a batch counts, 0 for no limit [LHD16].
    Answers are limited by method and to `max_body` bytes; with `long_answers` those of any length arrive over one
    connection of WebSocket or IPC [WSK2]. `on_notification` is called for every notification and when its connection
    is lost; `on_exchange` with the method of each request that was answered, and the bytes of request and answer.
    `direct` has the proxies of the environment ignored."""

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
        long_answers: bool = False,
        tls: Callable[[], ssl.SSLContext] | None = None,
        on_notification: Callable[[], None] | None = None,
        on_exchange: Callable[[str, int, int], None] | None = None,
        direct: bool = False,
    ) -> None:
        self.name = endpoint_name(url)
        self._on_exchange, self._timeout = on_exchange, timeout
        self._max_batch = max(1, max_batch)
        self._max_body = max_body
        self._http: HttpClient | None = None
        self._credentials = Credentials(parsed_url(url) or URL())
        self._socket: MessageTransport | None = None
        max_message = max_body or (message_transport.MAX_MESSAGE if long_answers else message_transport.SHARED_MESSAGE)
        if is_ipc(url):
            self._socket = IpcTransport(url, self.name, on_notification, max_message)
        elif carries_notifications(url):
            # It imports aiohttp, which takes a third of the time until a node's first request.
            from rollup_node.stages.io.http.web_socket import WebSocketTransport

            self._socket = WebSocketTransport(url, self.name, headers, tls, on_notification, max_message, direct)
        else:
            self._http = HttpClient(url, self.name, headers, tls, direct=direct)
        self._bucket = TokenBucket(rate_limit, self._max_batch) if rate_limit > 0 else None
        self._slots = asyncio.Semaphore(max(1, max_concurrency))
        self._last_id = 0
        self._arrays_from = 0.0

    async def call(self, method: str, *params: Any, timeout: float | None = None) -> Any:
        """Return the result of one call. Raises RpcFailure for an error answer, EndpointError without an answer."""
        return await self.call_typed(Any, method, *params, timeout=timeout)

    async def call_typed(self, shape: Any, method: str, *params: Any, timeout: float | None = None) -> Any:
        """As `call`, with the result decoded to a type that msgspec knows; EndpointError if it is not of that type."""
        limit = answer_limit(method, params)
        answer = await self._answer(method, params, timeout or self._timeout, limit)
        return self._checked(lambda: decode_answer(answer, method, shape, limit))

    async def call_raw(self, method: str, *params: Any, limit: AnswerLimit | None = None) -> bytes:
        """Return the whole body of the response, not decoded unless it is at most SHORT_BODY long.

        `limit` instead of that of the method. Raises as `call`, and AnswerTooLargeError."""
        limit = limit or answer_limit(method, params)
        answer = await self._answer(method, params, self._timeout, limit)
        if len(answer) <= SHORT_BODY:
            self._checked(lambda: decode_answer(answer, method, msgspec.Raw, limit))
        return answer

    async def batch(
        self, calls: Sequence[Call], shape: Any = Any, limit: AnswerLimit | None = None, timeout: float | None = None
    ) -> list[Any]:
        """Return results of type `shape` and RpcFailures in the order of the calls, sent `max_batch` at a time.

        `limit` and `timeout` of a batch instead of that of the method and twice that of a call. Raises RpcFailure if a
        batch is refused as a whole, and EndpointError."""
        parts = [calls[i : i + self._max_batch] for i in range(0, len(calls), self._max_batch)]
        results = await _all_or_none(
            [self._batch_part(part, shape, limit or batch_limit(part), timeout) for part in parts]
        )
        return [result for part in results for result in part]

    @property
    def takes_batches(self) -> bool:
        """Whether several calls are sent as one array: not with a `max_batch` of 1, and not after a refusal."""
        return self._max_batch > 1 and time.monotonic() >= self._arrays_from

    @property
    def can_subscribe(self) -> bool:
        """Whether the transport carries notifications."""
        return self._socket is not None

    @property
    def is_subscribed(self) -> bool:
        """Whether the present connection has a subscription."""
        return self._socket is not None and self._socket.subscribed

    async def subscribe(self, subject: str) -> None:
        """Make a subscription of `eth_subscribe` over the present connection. Raises as `call`."""
        await self.call("eth_subscribe", subject)
        if self._socket is not None:
            self._socket.subscribed = True

    async def reconnect(self) -> None:
        """Has the next call made over another connection of WebSocket or IPC; requests in flight fail."""
        if self._socket is not None:
            await self._socket.reconnect()

    async def close(self) -> None:
        """Close the connections; another call opens new ones."""
        for transport in (self._http, self._socket):
            if transport is not None:
                await transport.close()

    def _request(self, method: str, params: Sequence[Any]) -> tuple[int, bytes]:
        self._last_id += 1
        request = {"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": list(params)}
        return self._last_id, orjson.dumps(request)

    async def _batch_part(
        self, calls: Sequence[Call], shape: Any, limit: AnswerLimit, timeout: float | None
    ) -> list[Any]:
        timeout = timeout or 2 * self._timeout
        if len(calls) == 1 or not self.takes_batches:
            return await self._singly(calls, shape, limit, timeout)
        requests = [self._request(method, params) for method, params in calls]
        body = b"[" + b",".join(request for _, request in requests) + b"]"
        ids = [request_id for request_id, _ in requests]
        try:
            answer = await self._post(calls[0][0], body, ids, timeout, limit)
            answers = self._checked(lambda: split_batch(answer, ids, limit))
        except (RpcFailure, EndpointError) as error:
            if not refuses_array(error):
                raise
            # The frames in its traceback would keep the body in memory.
            refusal = error.with_traceback(None)
        else:
            return self._checked(lambda: decode_batch(answers, calls, shape, limit))
        return await self._singly_after(refusal, calls, shape, limit, timeout)

    async def _singly_after(
        self, refusal: Exception, calls: Sequence[Call], shape: Any, limit: AnswerLimit, timeout: float
    ) -> list[Any]:
        """Ask for each call alone from now on, if the first is answered. Raises the refusal otherwise [LHD30]."""
        try:
            first = await self._singly(calls[:1], shape, limit, timeout)
        except EndpointError as error:
            raise (error if is_throttled(error) else refusal) from None
        if isinstance(first[0], RpcFailure) and (is_throttled(first[0]) or str(first[0]) == str(refusal)):
            raise refusal
        if not self._arrays_from:
            text = "the endpoint refuses JSON-RPC batches: its calls are sent one by one"
            log.info(text, endpoint=self.name, error=refusal)
        self._arrays_from = time.monotonic() + SINGLE_SECONDS
        return first + await self._singly(calls[1:], shape, limit, timeout)

    async def _singly(self, calls: Sequence[Call], shape: Any, limit: AnswerLimit, timeout: float) -> list[Any]:
        """Return the results of calls that are no array; `limit` is that of all answers together."""
        size = 0

        async def one(method: str, params: Sequence[Any]) -> Any:
            nonlocal size
            answer = await self._answer(method, params, timeout, limit)
            size += len(answer)
            if size > limit.bytes:
                raise AnswerTooLargeError(self.name, f"the answers are longer than {limit.bytes} bytes")
            try:
                return self._checked(lambda: decode_answer(answer, method, shape, limit))
            except RpcFailure as failure:
                return failure

        return await _all_or_none([one(method, params) for method, params in calls])

    async def _answer(self, method: str, params: Sequence[Any], timeout: float, limit: AnswerLimit) -> bytes:
        request_id, body = self._request(method, params)
        return await self._post(method, body, [request_id], timeout, limit)

    def _checked(self, decode: Callable[[], T]) -> T:
        """Return what a function decodes. Raises MalformedAnswerError instead of MalformedJsonError."""
        try:
            return decode()
        except MalformedJsonError as error:
            text = str(error)
        # Outside of the handler: as its context the first error would keep the body in memory.
        raise MalformedAnswerError(self.name, text)

    async def _post(self, method: str, body: bytes, ids: Sequence[int], timeout: float, limit: AnswerLimit) -> bytes:
        most = limit.bytes if self._max_body is None else min(limit.bytes, self._max_body)
        async with self._slots:
            if self._bucket is not None and self._bucket.consume(now := time.monotonic(), len(ids)) < 0:
                await asyncio.sleep(self._bucket.delay(now, 0.0))
            if self._socket is not None:
                answer = await self._socket.exchange(body, ids, timeout, AnswerLimit(most, limit.values))
                answer = self._credentials.masked(answer, {}, 200)
            else:
                assert self._http is not None
                response = await self._http.post(body, timeout, most)
                if not is_success(response.status):
                    retry_after, target = (response.headers.get(name, "") for name in ("retry-after", "location"))
                    raise_for_status(self.name, response.status, response.body, retry_after, target)
                answer = response.body
        if self._on_exchange is not None:
            self._on_exchange(method, len(body), len(answer))
        return answer


async def _all_or_none(work: Sequence[Awaitable[T]]) -> list[T]:
    """All results in order; the first error cancels the rest."""
    tasks = [asyncio.ensure_future(item) for item in work]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def carries_notifications(url: str) -> bool:
    """Return whether an endpoint is asked over WebSocket or IPC, which carry subscriptions."""
    return is_ipc(url) or (parsed_url(url) or URL()).scheme in ("ws", "wss")


def raise_for_status(endpoint: str, status: int, body: bytes, retry_after: str, target: str = "") -> NoReturn:
    """Raise RpcFailure for an error object in the body, unless the server is overloaded or broken, or EndpointError.

    `target` is where a redirect leads."""
    if status != TOO_MANY_REQUESTS and status < 500 and (failure := failure_in(body)) is not None:
        raise failure
    text = f"HTTP status {status}" + (f": {shown_body(body)}" if body else "")
    if target and 300 <= status < 400:
        where = f", at {endpoint_name(target)}" if "://" in target else ""
        text = f"HTTP status {status}: use the URL that it redirects to{where}"
    raise EndpointError(endpoint, text, status, _seconds(retry_after))


def _seconds(header: str) -> float | None:
    """Return the seconds of a Retry-After header; None if it is empty or holds a date."""
    return float(header) if header.isascii() and header.isdigit() else None
