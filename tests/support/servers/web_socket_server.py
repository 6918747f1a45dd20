"""A WebSocket JSON-RPC endpoint for tests: answers methods, takes subscriptions, and may misbehave."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import orjson
from aiohttp import web

from tests.support.servers.http_listener import Methods, app_for_every_path

Answer = Callable[["WebSocketServer", web.WebSocketResponse, Any], Awaitable[None]]
"""Answers one message, decoded."""


UNREADABLE_DATE = "Mon, 01 Jan 99999999999999999999 00:00:00 GMT"
"""A Date header that Python cannot convert."""


class WebSocketServer:
    """Its state: what it has received, and the connections that are open. `answer` replaces its answers."""

    def __init__(self, methods: Methods | None = None, answer: Answer | None = None) -> None:
        self.requests: list[Any] = []
        self.handshakes: list[dict[str, str]] = []
        self.connections: list[web.WebSocketResponse] = []
        self.subscribers: list[web.WebSocketResponse] = []
        self.refuse: Callable[[], web.Response | None] = lambda: None
        self.answer: Answer = answer or WebSocketServer.answer_properly
        self.refuses_subscriptions = False
        self._methods = methods or {}
        self.app = app_for_every_path(self._serve)

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        self.handshakes.append(dict(request.headers))
        if (refusal := self.refuse()) is not None:
            return refusal
        socket = web.WebSocketResponse(max_msg_size=64 << 20)
        await socket.prepare(request)
        self.connections.append(socket)
        try:
            async for message in socket:
                if message.type is aiohttp.WSMsgType.TEXT:
                    self.requests.append(orjson.loads(message.data))
                    await self.answer(self, socket, self.requests[-1])
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self.connections.remove(socket)
            self.subscribers = [subscriber for subscriber in self.subscribers if subscriber is not socket]
        return socket

    async def answer_properly(self, socket: web.WebSocketResponse, request: Any) -> None:
        """Answers a call, or a batch in reverse order."""
        answers = [self._result(socket, call) for call in (request if isinstance(request, list) else [request])]
        await self.send(socket, answers[::-1] if isinstance(request, list) else answers[0])

    def _result(self, socket: web.WebSocketResponse, call: Any) -> Any:
        method, params = call["method"], call["params"]
        if method == "eth_subscribe":
            if self.refuses_subscriptions:
                return {"jsonrpc": "2.0", "id": call["id"], "error": {"code": -32601, "message": "no notifications"}}
            return {"jsonrpc": "2.0", "id": call["id"], "result": self._subscribe(socket)}
        try:
            result = self._methods[method](*params) if method in self._methods else [method, params]
        except Exception as error:
            return {"jsonrpc": "2.0", "id": call["id"], "error": {"code": -32000, "message": str(error)}}
        return {"jsonrpc": "2.0", "id": call["id"], "result": result}

    def _subscribe(self, socket: web.WebSocketResponse) -> str:
        self.subscribers.append(socket)
        return "0x1"

    def forward_to(self, url: str) -> None:
        """Has every request but subscriptions answered by an HTTP endpoint, with the token of the last handshake."""

        async def forward(server: WebSocketServer, socket: web.WebSocketResponse, request: Any) -> None:
            if isinstance(request, dict) and request["method"] == "eth_subscribe":
                await server.answer_properly(socket, request)
                return
            headers = {name: item for name, item in server.handshakes[-1].items() if name == "Authorization"}
            async with aiohttp.ClientSession() as session, session.post(url, json=request, headers=headers) as response:
                await socket.send_str(await response.text())

        self.answer = forward

    async def notify(self) -> None:
        """Send a notification of a new head to every subscriber."""
        params = {"subscription": "0x1", "result": {"number": "0x1"}}
        for socket in self.subscribers:
            await self.send(socket, {"jsonrpc": "2.0", "method": "eth_subscription", "params": params})

    async def send(self, socket: web.WebSocketResponse, message: Any) -> None:
        """Send a message as JSON."""
        await socket.send_str(orjson.dumps(message).decode())

    async def drop_connections(self) -> None:
        """Close every connection."""
        for socket in list(self.connections):
            await socket.close(code=1001)


def web_socket_url(url: str) -> str:
    """Return the WebSocket URL of an HTTP server."""
    return "ws" + url.removeprefix("http")
