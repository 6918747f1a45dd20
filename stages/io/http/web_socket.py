"""JSON-RPC over WebSocket [WSK1, WSK2, WSK4]."""

import asyncio
import ssl
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from email.utils import parsedate_to_datetime
from typing import NoReturn

import aiohttp
from yarl import URL

from rollup_node.stages.io.http.endpoint_errors import EndpointError, parsed_url, why_broken, why_not_connected
from rollup_node.stages.io.http.message_transport import MessageConnection, MessageTransport
from rollup_node.stages.io.http.proxies import NOT_HTTP, basic_login, proxy_name, proxy_of
from rollup_node.stages.protocol.foreign_json import MalformedJsonError

MAX_HEADER, MAX_HEADERS = 32 << 10, 256
"""Bytes of a header of the handshake, and their number: providers add policies and traces."""

HEARTBEAT = 15.0
"""Seconds without a byte until a ping is sent; a pong has to come in half of that."""

CLOSE_SECONDS = 1.0
TOKEN_WINDOW = 60.0
"""An engine refuses a token made more seconds before or after its own time [OPT74]."""


class WebSocketConnection(MessageConnection):
    """A WebSocket after its handshake; `max_message` in bytes."""

    def __init__(self, name: str, socket: aiohttp.ClientWebSocketResponse[bool], max_message: int) -> None:
        super().__init__(name, "WebSocket")
        self._socket, self._max_message = socket, max_message
        self._reader = asyncio.create_task(self._read())

    @property
    def is_open(self) -> bool:
        return not self._socket.closed and not self._reader.done()

    async def send(self, body: bytes) -> None:
        try:
            await self._socket.send_frame(body, aiohttp.WSMsgType.TEXT)
        except (aiohttp.ClientError, OSError) as error:
            raise EndpointError(self.name, f"the connection failed ({why_broken(error)})") from None

    async def close(self) -> None:
        # A peer that sends on and on would keep `close` reading.
        await self._end(aiohttp.WSCloseCode.OK)
        self._reader.cancel()
        await asyncio.gather(self._reader, return_exceptions=True)

    async def _read(self) -> None:
        reason, too_much = "closed", False
        try:
            reason, too_much = await self._read_messages()
        finally:
            self.lose(reason, too_much)

    async def _read_messages(self) -> tuple[str, bool]:
        """Take messages until the connection ends; why it did, and whether a message was too long."""
        while True:
            message = await self._socket.receive()
            if message.type in (aiohttp.WSMsgType.TEXT, aiohttp.WSMsgType.BINARY):
                try:
                    self.take(message.data)
                except MalformedJsonError as error:
                    reason = f"malformed message, {error}"
                    await self._end(aiohttp.WSCloseCode.INVALID_TEXT)
                    return reason, False
            elif message.type is aiohttp.WSMsgType.ERROR:
                return self._why_broken(message.data)
            else:
                code = self._socket.close_code
                return "closed by the endpoint" + (f", code {code}" if code else ""), False

    def _why_broken(self, error: object) -> tuple[str, bool]:
        # The close code does not tell: a peer may close with 1009 because our request is too large for it.
        if isinstance(error, aiohttp.WebSocketError) and error.code == aiohttp.WSCloseCode.MESSAGE_TOO_BIG:
            return f"a message is longer than {self._max_message} bytes", True
        if isinstance(error, aiohttp.ServerTimeoutError):
            return f"no pong within {HEARTBEAT / 2:g} s", False
        return f"protocol error, {type(error).__name__}", False

    async def _end(self, code: int) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._socket.close(code=code)


class WebSocketTransport(MessageTransport):
    """The connections to one URL. `headers`, `tls` and `direct` as in JsonRpcClient."""

    what = "WebSocket"

    def __init__(
        self,
        url: str,
        name: str,
        headers: Callable[[], Mapping[str, str]] | None,
        tls: Callable[[], ssl.SSLContext] | None,
        on_notification: Callable[[], None] | None,
        max_message: int,
        direct: bool,
    ) -> None:
        super().__init__(name, on_notification, max_message)
        self._proxy = None if direct else proxy_of(parsed_url(url) or URL())
        self._url, self._headers, self._tls = url, headers, tls
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        await super().close()
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def connect(self, max_message: int) -> MessageConnection:
        return WebSocketConnection(self.name, await self._connect(max_message), max_message)

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
