"""JSON-RPC over WebSocket: one connection for all requests, opened again when it is lost [WSK1 to WSK6]."""

import asyncio
import random
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import NoReturn

import aiohttp
from yarl import URL

from rollup_node.stages.io.http.endpoint_errors import (
    AnswerTooLargeError,
    EndpointError,
    NoAnswerError,
    parsed_url,
    why_broken,
    why_not_connected,
)
from rollup_node.stages.io.http.json_answers import answered_ids
from rollup_node.stages.io.http.proxies import NOT_HTTP, basic_login, proxy_name, proxy_of
from rollup_node.stages.protocol.answer_limits import RECEIPTS, AnswerLimit
from rollup_node.stages.protocol.foreign_json import MalformedJsonError
from rollup_node.stages.protocol.pacing import backoff

MAX_MESSAGE = RECEIPTS.bytes
"""Bytes of a message: those of the largest answer of any method."""

MAX_HEADER, MAX_HEADERS = 32 << 10, 256
"""Bytes of a header of the handshake, and their number: providers add policies and traces."""

SHARED_MESSAGE = 12 << 20
"""Bytes of a message on the connection of all requests: more than an ordinary L1 block or a batch of headers. A request
whose answer may be longer has a connection of its own, whose messages obey its limit."""

HEARTBEAT = 15.0
"""Seconds without a byte until a ping is sent; a pong has to come in half of that."""

FIRST_PAUSE, MAX_PAUSE = 0.1, 3.0
"""Seconds until a connection is opened again after the first failure in a row, and at most."""

MAX_UNREQUESTED = 100
"""So many answers to no request, with none to a request between them, end a connection."""

MAX_GIVEN_UP = 10_000
"""So many of the last requests that were given up are known, so that their answers may come late."""

CLOSE_SECONDS = 1.0
TOKEN_WINDOW = 60.0
"""An engine refuses a token made more seconds before or after its own time [OPT74]."""


@dataclass
class _Request:
    """What was sent and is not answered yet: a call, or a batch of several ids."""

    answer: asyncio.Future[bytes]
    max_values: int
    is_batch: bool


class _Connection:
    """An open connection; `max_message` in bytes, `on_notification` for each one, `on_lost` once."""

    def __init__(
        self,
        name: str,
        socket: aiohttp.ClientWebSocketResponse[bool],
        max_message: int,
        on_notification: Callable[[], None],
        on_lost: Callable[["_Connection", str], None],
    ) -> None:
        self.name = name
        self.has_answered = False
        self._socket, self._max_message = socket, max_message
        self._on_notification, self._on_lost = on_notification, on_lost
        self._requests: dict[bytes, _Request] = {}
        self._given_up: dict[bytes, None] = {}
        self._unrequested = 0
        self._received_too_much = False
        self._reader = asyncio.create_task(self._read())

    @property
    def is_open(self) -> bool:
        return not self._socket.closed and not self._reader.done()

    async def ask(self, body: bytes, ids: Sequence[int], limit: AnswerLimit) -> bytes:
        """Send a request and return the message that answers it. Raises EndpointError."""
        request = _Request(asyncio.get_running_loop().create_future(), limit.values, len(ids) > 1)
        keys = [b"%d" % id_ for id_ in ids]
        self._requests.update(dict.fromkeys(keys, request))
        try:
            await self._socket.send_frame(body, aiohttp.WSMsgType.TEXT)
            return await request.answer
        except (aiohttp.ClientError, OSError) as error:
            raise EndpointError(self.name, f"the connection failed ({why_broken(error)})") from None
        finally:
            for key in keys:
                self._requests.pop(key, None)
            if request.answer.cancel() or request.answer.cancelled():
                self._give_up(keys)
            else:
                # asyncio logs an exception that nobody has looked at.
                request.answer.exception()

    def _give_up(self, keys: Sequence[bytes]) -> None:
        """Nobody waits for the answer any more; it may still come."""
        self._given_up.update(dict.fromkeys(keys))
        while len(self._given_up) > MAX_GIVEN_UP:
            del self._given_up[next(iter(self._given_up))]

    async def close(self) -> None:
        """Close it within CLOSE_SECONDS."""
        # A peer that sends on and on would keep `close` reading.
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._socket.close()
        self._reader.cancel()
        await asyncio.gather(self._reader, return_exceptions=True)

    async def _read(self) -> None:
        reason = "closed"
        try:
            reason = await self._read_messages()
        finally:
            for request in self._requests.values():
                if not request.answer.done():
                    request.answer.set_exception(self._error(reason))
            self._requests.clear()
            self._on_lost(self, reason)

    async def _read_messages(self) -> str:
        """Take messages until the connection ends; why it did."""
        while True:
            message = await self._socket.receive()
            if message.type in (aiohttp.WSMsgType.TEXT, aiohttp.WSMsgType.BINARY):
                try:
                    self._take(message.data)
                except MalformedJsonError as error:
                    reason = f"malformed message, {error}"
                    await self._end(aiohttp.WSCloseCode.INVALID_TEXT)
                    return reason
            elif message.type is aiohttp.WSMsgType.ERROR:
                return self._why_broken(message.data)
            else:
                code = self._socket.close_code
                return "closed by the endpoint" + (f", code {code}" if code else "")

    def _why_broken(self, error: object) -> str:
        # The close code does not tell: a peer may close with 1009 because our request is too large for it.
        if isinstance(error, aiohttp.WebSocketError) and error.code == aiohttp.WSCloseCode.MESSAGE_TOO_BIG:
            self._received_too_much = True
            return f"a message is longer than {self._max_message} bytes"
        if isinstance(error, aiohttp.ServerTimeoutError):
            return f"no pong within {HEARTBEAT / 2:g} s"
        return f"protocol error, {type(error).__name__}"

    async def _end(self, code: int) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._socket.close(code=code)

    def _error(self, reason: str) -> EndpointError:
        # Whose answer was too large is not known: each request can be made again with a larger limit.
        kind = AnswerTooLargeError if self._received_too_much else EndpointError
        return kind(self.name, f"the WebSocket connection was lost ({reason})")

    def _take(self, message: bytes) -> None:
        """Give a message to the request it answers. Raises MalformedJsonError, also after too many to none."""
        most = max((request.max_values for request in self._requests.values()), default=1000)
        ids = answered_ids(message, most)
        if ids is None:
            self._on_notification()
            return
        request = next((self._requests[id_] for id_ in ids if id_ in self._requests), None)
        waiting = list(self._requests.values())
        # An error about a request that the endpoint could not read, or a batch that it refuses, has no id.
        waiting = [item for item in waiting if item.is_batch] or waiting
        if request is None and ids == [b"null"] and waiting and all(item is waiting[0] for item in waiting):
            request = waiting[0]
        if request is None and any(id_ in self._given_up for id_ in ids):
            self.has_answered = True
            for id_ in ids:
                self._given_up.pop(id_, None)
            return
        if request is None or request.answer.done():
            self._unrequested += 1
            if self._unrequested > MAX_UNREQUESTED:
                raise MalformedJsonError(f"more than {MAX_UNREQUESTED} answers to no request")
            return
        self._unrequested, self.has_answered = 0, True
        request.answer.set_result(message)


class WebSocketTransport:
    """Exchanges messages with one endpoint. `headers`, `tls` and `direct` as in JsonRpcClient.

    `max_message` are the bytes of a message on the shared connection, of which one that is longer ends it.
    `on_notification` is called for each notification, and when a connection is lost over which a subscription was made.
    `subscribed` is set by the subscriber, and cleared when the connection is lost."""

    def __init__(
        self,
        url: str,
        name: str,
        headers: Callable[[], Mapping[str, str]] | None,
        tls: Callable[[], ssl.SSLContext] | None,
        on_notification: Callable[[], None] | None,
        max_message: int = SHARED_MESSAGE,
        direct: bool = False,
    ) -> None:
        self.name = name
        self._proxy = None if direct else proxy_of(parsed_url(url) or URL())
        self.subscribed = False
        self._url, self._max_message = url, max_message
        self._headers, self._tls = headers, tls
        self._on_notification = on_notification or (lambda: None)
        self._opening = asyncio.Lock()
        self._connection: _Connection | None = None
        self._session: aiohttp.ClientSession | None = None
        self._failures = 0
        self._retry_at, self._failure = 0.0, ""

    async def exchange(self, body: bytes, ids: Sequence[int], timeout: float, limit: AnswerLimit) -> bytes:
        """Return the answer to a request, which is never sent again. Raises EndpointError, AnswerTooLargeError."""
        connection = None
        try:
            async with asyncio.timeout(timeout) as deadline:
                connection = await self._open(deadline, timeout)
                if limit.bytes <= self._max_message:
                    answer = await connection.ask(body, ids, limit)
                else:
                    answer = await self._ask_alone(body, ids, limit)
        except TimeoutError:
            if connection is None:
                raise EndpointError(self.name, f"no WebSocket connection within {timeout:g} s") from None
            raise NoAnswerError(self.name, timeout) from None
        self._failures = 0
        if len(answer) > limit.bytes:
            raise AnswerTooLargeError(self.name, f"the answer is longer than {limit.bytes} bytes")
        return answer

    async def _ask_alone(self, body: bytes, ids: Sequence[int], limit: AnswerLimit) -> bytes:
        socket = await self._connect(limit.bytes)
        connection = _Connection(self.name, socket, limit.bytes, lambda: None, lambda *_: None)
        try:
            return await connection.ask(body, ids, limit)
        finally:
            await connection.close()

    async def reconnect(self) -> None:
        """Close the connection; the next exchange opens another."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()
        self._unsubscribe()

    async def close(self) -> None:
        self._on_notification = lambda: None
        await self.reconnect()
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _open(self, deadline: asyncio.Timeout, timeout: float) -> _Connection:
        """Return the open connection, or another one, unless the last attempt was a moment ago."""
        async with self._opening:
            if self._connection is not None and self._connection.is_open:
                return self._connection
            if time.monotonic() < self._retry_at:
                raise EndpointError(self.name, self._failure)
            await self.reconnect()
            try:
                socket = await self._connect(self._max_message)
            except EndpointError as error:
                self._failed(str(error).removeprefix(f"{self.name}: "))
                raise
            except asyncio.CancelledError:
                if deadline.expired():
                    self._failed(f"no WebSocket connection within {timeout:g} s")
                raise
            self._connection = _Connection(self.name, socket, self._max_message, self._notify, self._lost)
            return self._connection

    def _failed(self, failure: str) -> None:
        """Have the next attempt made after a pause that grows, with jitter."""
        self._failures += 1
        pause = backoff(self._failures, FIRST_PAUSE, MAX_PAUSE)
        self._retry_at, self._failure = time.monotonic() + pause * random.uniform(0.5, 1.0), failure

    def _notify(self) -> None:
        self._on_notification()

    def _unsubscribe(self) -> None:
        if self.subscribed:
            self.subscribed = False
            self._on_notification()

    def _lost(self, connection: _Connection, reason: str) -> None:
        if connection is not self._connection:
            return
        # One that never answered counts as a failure: an endpoint that closes at once is not asked at once again.
        if not connection.has_answered:
            self._failed(f"the WebSocket connection was lost ({reason})")
        self._unsubscribe()

    async def _connect(self, max_message: int) -> aiohttp.ClientWebSocketResponse[bool]:
        headers = self._headers() if self._headers else {}
        tls = self._tls() if self._tls else True
        by, proxy, login = "", self._proxy, ""
        is_secure = self._url.lower().startswith("wss")
        if proxy is not None:
            if not proxy.raw_host:
                raise EndpointError(self.name, f"cannot connect ({NOT_HTTP})")
            by, login = f"through the proxy {proxy_name(proxy)}: ", basic_login(proxy)
            proxy = proxy.with_user(None)
            # aiohttp makes a tunnel for `wss` alone, and what it sends without one has the headers of the request.
            if login and not is_secure:
                headers = {**headers, "Proxy-Authorization": login}
        try:
            return await self._client_session().ws_connect(
                # A proxy knows the schemes of HTTP alone.
                self._url if proxy is None else URL(self._url).with_scheme("https" if is_secure else "http"),
                headers=headers,
                ssl=tls,
                proxy=proxy,
                proxy_headers={"Proxy-Authorization": login} if login else None,
                # aiohttp refuses this length too.
                max_msg_size=max_message + 1,
                heartbeat=HEARTBEAT,
                timeout=aiohttp.ClientWSTimeout(ws_close=CLOSE_SECONDS),
                decode_text=False,
            )
        except aiohttp.WSServerHandshakeError as error:
            raise EndpointError(self.name, _refusal(error, time.time()), error.status) from None
        except aiohttp.ClientHttpProxyError as error:
            raise EndpointError(self.name, f"cannot connect ({by}it answers HTTP status {error.status})") from None
        except aiohttp.ClientConnectorError as error:
            raise EndpointError(self.name, f"cannot connect ({by}{why_not_connected(error.os_error)})") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise EndpointError(self.name, f"the WebSocket handshake failed ({why_broken(error)})") from None

    def _client_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            trace = aiohttp.TraceConfig()
            trace.on_request_redirect.append(self._refuse_redirect)
            self._session = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=None),
                max_field_size=MAX_HEADER,
                max_headers=MAX_HEADERS,
                cookie_jar=aiohttp.DummyCookieJar(),
                trace_configs=[trace],
            )
        return self._session

    async def _refuse_redirect(self, *_: object) -> NoReturn:
        raise EndpointError(self.name, "a redirect instead of a WebSocket handshake")


def _refusal(error: aiohttp.WSServerHandshakeError, now: float) -> str:
    """Return the text of a refused handshake, with the difference of the clocks when a token is refused for it."""
    text = f"HTTP status {error.status} in the WebSocket handshake"
    if error.status not in (401, 403):
        return text
    text += ": the token is refused"
    ahead = _clock_difference(error.headers, now)
    if ahead is None or abs(ahead) <= TOKEN_WINDOW:
        return text
    return f"{text}, our clock is {abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} that of the endpoint"


def _clock_difference(headers: Mapping[str, str] | None, now: float) -> float | None:
    """By how many seconds `now` is ahead of the Date of a response; None if it has none that can be read."""
    try:
        return now - parsedate_to_datetime((headers or {})["Date"]).timestamp()
    except (KeyError, ValueError, OverflowError):
        return None
