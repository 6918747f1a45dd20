"""What arrives on open connections: requests to the JSON-RPC server over HTTP, and messages of WebSocket endpoints."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import aiohttp
import orjson

from rollup_node.stages.io.http.endpoint_errors import EndpointError
from rollup_node.stages.io.http.web_socket import WebSocketConnection
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.protocol.answer_limits import SMALL
from rollup_node.stages.rpc.config import RpcConfig
from rollup_node.stages.rpc.connections import Limits
from rollup_node.stages.rpc.process import http_server, listener
from rollup_node.stages.rpc.process.http_server import RpcServer
from rollup_node.stages.rpc.process.listener import Listener
from rollup_node.stages.rpc.process.status_source import StatusSource
from rollup_node.tools.fuzz.targets.chain_seeds import answer, rollup
from rollup_node.tools.fuzz.targets.target import JSON_TOKENS, FuzzTarget, one_of
from rollup_node.tools.status_page.scenes import SCENES, scene

MAX_TURNS = 400
"""Iterations of the event loop after which a request has its response."""
MAX_SENT = 100_000
SOCKETS = (aiohttp.WSMsgType.TEXT, aiohttp.WSMsgType.BINARY, aiohttp.WSMsgType.ERROR, aiohttp.WSMsgType.CLOSED)


@cache
def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.new_event_loop()


# --- HTTP ----------------------------------------------------------------------------------------------------------


class _Client(asyncio.Transport):
    """A client that takes what it is sent."""

    def __init__(self) -> None:
        super().__init__()
        self.sent, self.is_closed = b"", False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 5) if name == "peername" else default

    def write(self, data: Any) -> None:
        self.sent += bytes(data)

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_closed = True

    def is_closing(self) -> bool:
        return self.is_closed

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """There is no buffer."""

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        """All was received."""

    def resume_reading(self) -> None:
        """All was received."""


class _Bugs:
    """Takes the place of a logger: a logged crash is a failure."""

    def __init__(self) -> None:
        self.found: list[BaseException] = []

    def crash(self, text: str, error: BaseException, **fields: object) -> None:
        self.found.append(error)

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *texts, **fields: None


def http_request(data: bytes) -> object:
    """Return what a client sends on a connection, in two parts.

    A response, or the end of the connection, and no crash."""
    bugs = _Bugs()
    with patch.object(listener, "log", bugs), patch.object(http_server, "log", bugs):
        client = _loop().run_until_complete(_serve(data))
    if bugs.found:
        raise bugs.found[0]
    assert len(client.sent) < MAX_SENT + 300 * len(data)
    assert _listener().held == 0
    return client.sent[:12].decode("latin-1"), client.is_closed


async def _serve(data: bytes) -> _Client:
    server, client = _server(), _Client()
    protocol = server()
    protocol.connection_made(client)
    for part in (data[: len(data) // 2], data[len(data) // 2 :]):
        protocol.data_received(part)
        await _idle(client)
    protocol.connection_lost(None)
    await _idle(client)
    return client


async def _idle(client: _Client) -> None:
    """Let a request take its turns, until nothing is sent any more."""
    quiet, sent = 0, 0
    for _ in range(MAX_TURNS):
        await asyncio.sleep(0)
        quiet, sent = (quiet + 1, sent) if len(client.sent) == sent else (0, len(client.sent))
        if quiet > 12:
            return
    raise AssertionError("the response has no end")


@cache
def _listener() -> Listener:
    config = RpcConfig(
        *("v1", rollup(), "127.0.0.1"),
        enable_admin=True,
        vhosts=("node.example",),
        cors_domains=("http://page.example",),
        jwt_secret=bytes(32),
    )
    status = scene(next(iter(SCENES))).status
    source: Any = SimpleNamespace(status=lambda: status, json=lambda: b"{}")
    source.readiness = partial(StatusSource.readiness, source)
    node: Any = SimpleNamespace(config=config)
    server = RpcServer(node, source, Meter("rpc"), (), "fuzz")
    return Listener(server.handle, "rpc", "127.0.0.1", 0, Limits(8, 8, 32 << 20), Meter("rpc"))


@cache
def _server() -> Any:
    return listener._Server(_listener(), _listener()._handle)


# --- WebSocket -----------------------------------------------------------------------------------------------------


class _Socket:
    """A WebSocket on which the parts of the input arrive, one message for each line."""

    closed, close_code = False, None

    def __init__(self, data: bytes) -> None:
        self._messages: list[Any] = [
            SimpleNamespace(type=SOCKETS[len(word) % 2], data=word) for word in data.split(b"\n")
        ]
        self._messages.append(SimpleNamespace(type=SOCKETS[2 + len(data) % 2], data=ValueError()))

    async def send_frame(self, body: bytes, kind: object) -> None:
        """Take a request."""

    async def receive(self) -> Any:
        await asyncio.sleep(0)
        return self._messages.pop(0)

    async def close(self, code: int = 1000) -> None:
        self.closed = True


def web_socket(data: bytes) -> object:
    """Messages of a WebSocket endpoint while a call and a batch wait for their answers.

    Each gets one that is meant for it, or an error of the endpoint."""
    return _loop().run_until_complete(_exchange(data))


async def _exchange(data: bytes) -> object:
    notified: list[None] = []
    lost: list[str] = []
    socket: Any = _Socket(data)
    connection = WebSocketConnection("endpoint", socket, 1 << 20)
    connection.on_notification, connection.on_lost = lambda: notified.append(None), lambda _, text: lost.append(text)
    asked = [asyncio.ensure_future(connection.ask(b"{}", ids, SMALL)) for ids in ((1,), (2, 3))]
    await asyncio.wait([connection._reader])
    outcomes = []
    for item, ids in zip(asked, ((b"1",), (b"2", b"3")), strict=True):
        try:
            message = await item
            assert any(number in message for number in ids) or b"null" in message or b'"id"' not in message
            outcomes.append("answered")
        except EndpointError as error:
            assert len(str(error)) < 1500 and str(error).isprintable()
            outcomes.append("lost")
    with suppress(EndpointError):
        await connection.close()
    assert len(lost) == 1 and not connection.is_open and not connection._requests
    return outcomes, min(2, len(notified)), connection.has_answered


_BODY = orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": "optimism_syncStatus", "params": []})
_HEAD = b"Host: 127.0.0.1:8545\r\nContent-Type: application/json\r\n"
_REQUESTS = (
    b"POST / HTTP/1.1\r\n" + _HEAD + b"Content-Length: %d\r\n\r\n" % len(_BODY) + _BODY,
    b"POST / HTTP/1.1\r\n"
    + _HEAD
    + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n" % len(_BODY)
    + _BODY
    + b"\r\n0\r\n\r\n",
    b"POST / HTTP/1.1\r\n"
    + _HEAD
    + b"Accept-Encoding: gzip\r\nOrigin: http://page.example\r\nContent-Length: 5\r\n\r\n[{},]",
    b"GET /readyz?lag=2.5 HTTP/1.1\r\nHost: node.example\r\n\r\nGET /healthz HTTP/1.1\r\nHost: [::1]:5\r\n\r\n",
    b"OPTIONS / HTTP/1.1\r\nHost: [::1]\r\nOrigin: http://page.example\r\nAccess-Control-Request-Method: POST\r\n\r\n",
    b"GET /status.json HTTP/1.0\r\nHost: other\r\nAuthorization: Bearer a.b.c\r\n\r\n",
)
_HEAD_NEWS = orjson.dumps({"jsonrpc": "2.0", "method": "eth_subscription", "params": {"subscription": "0x1"}})
_ANSWERS = (answer("0x1"), orjson.dumps([{"id": 3, "result": 1}, {"id": 2, "result": 2}]))
HTTP_TOKENS = (b"0", b"-1", b"99999999999999999999", b'"', b"chunked", b"gzip", b"\r\n", b"\x00", b"%ff", b"*")
TARGETS = {
    "http-request": FuzzTarget("RPC client", http_request, one_of(_REQUESTS), (), HTTP_TOKENS),
    "web-socket": FuzzTarget(
        *("L1 endpoint", web_socket, one_of([b"\n".join((_HEAD_NEWS, *_ANSWERS)), *_ANSWERS, _HEAD_NEWS])),
        *((), JSON_TOKENS),
    ),
}
"""The targets by name."""
