"""The server for a supervisor: JSON-RPC by WebSocket and HTTP with a JWT, and a subscription of events [IOP1, IOP6]."""

import asyncio
import secrets
import time
from collections.abc import Mapping
from typing import Any

import orjson
from aiohttp import WSMsgType, web

from rollup_node.stages.io.log import get_logger
from rollup_node.stages.io.metrics import Meter
from rollup_node.stages.rpc.event_stream import EventStream
from rollup_node.stages.rpc.jsonrpc import (
    JsonRpcError,
    JsonRpcRequest,
    ParsedBody,
    Response,
    error_response,
    parse_body,
    success_response,
)
from rollup_node.stages.rpc.jwt_token import token_error
from rollup_node.stages.rpc.process.http_server import RpcServer
from rollup_node.stages.rpc.process.interop_methods import InteropClient, interop_methods
from rollup_node.stages.rpc.process.listener import Exchange
from rollup_node.stages.rpc.process.node_view import NodeView

VERSION = "v0.0.0"
MAX_MESSAGE = 5 << 20
MAX_WAITING = 512
"""Messages that wait to be sent to one client; a client that is slower is disconnected."""

SEND_SECONDS = 10.0
PING_SECONDS = 30.0
LABEL = "interop_indexing"

log = get_logger("rpc")


class InteropServer:
    """Handles requests with a token of `jwt_secret`."""

    def __init__(self, node: NodeView, client: InteropClient, jwt_secret: bytes, meter: Meter) -> None:
        self.client, self._secret = client, jwt_secret
        self._http = RpcServer(node, meter, interop_methods(client), LABEL)
        self._sessions: set[_Session] = set()

    async def handle(self, request: web.BaseRequest, exchange: Exchange) -> web.StreamResponse:
        """One HTTP request, which may become a WebSocket connection."""
        if request.path in ("/healthz", "/healthz/"):
            return web.json_response({"version": VERSION})
        error = token_error(request.headers.get("Authorization", ""), self._secret, time.time())
        if error is not None:
            return web.Response(status=401, text=f"{error}\n")
        if request.headers.get("Upgrade", "").lower() == "websocket" and request.path in ("/", "/ws"):
            return await self._serve_websocket(request, exchange)
        return await self._http.handle(request, exchange)

    async def close(self) -> None:
        """Ends the WebSocket connections."""
        for session in list(self._sessions):
            await session.close()

    async def _serve_websocket(self, request: web.BaseRequest, exchange: Exchange) -> web.StreamResponse:
        socket = web.WebSocketResponse(max_msg_size=MAX_MESSAGE, heartbeat=PING_SECONDS, compress=False)
        transport = request.transport
        if not socket.can_prepare(request) or transport is None:
            return web.Response(status=400, text="not a WebSocket request\n")
        await socket.prepare(request)
        session = _Session(socket, transport, exchange, self._http, self.client.stream)
        self._sessions.add(session)
        try:
            await session.run()
        finally:
            self._sessions.discard(session)
        return socket


class _Session:
    """One WebSocket connection: calls are answered in their order, notifications in between."""

    def __init__(
        self,
        socket: web.WebSocketResponse,
        transport: asyncio.Transport,
        exchange: Exchange,
        http: RpcServer,
        stream: EventStream,
    ) -> None:
        self._socket, self._transport, self._exchange = socket, transport, exchange
        self._http, self._stream = http, stream
        self._waiting: asyncio.Queue[bytes] = asyncio.Queue(MAX_WAITING)
        self._subscriptions: dict[str, Any] = {}

    async def run(self) -> None:
        """Serves until the connection ends."""
        sender = asyncio.create_task(self._send(), name="interop notifications")
        try:
            async for message in self._socket:
                if message.type not in (WSMsgType.TEXT, WSMsgType.BINARY):
                    break
                data = message.data.encode() if isinstance(message.data, str) else message.data
                await self._answer(data)
                self._exchange.release()
        finally:
            for notify in self._subscriptions.values():
                self._stream.unsubscribe(notify)
            sender.cancel()
            await asyncio.gather(sender, return_exceptions=True)

    async def close(self) -> None:
        """Ends the connection."""
        await self._socket.close()

    async def _answer(self, data: bytes) -> None:
        try:
            body = parse_body(data)
        except JsonRpcError as error:
            self._put(error_response(None, error))
            return
        responses = [response for item in body.items if (response := await self._respond(item)) is not None]
        if body.is_batch and responses:
            self._put(responses)
        elif responses:
            self._put(responses[0])
        self._begin(body)

    async def _respond(self, item: JsonRpcRequest | Response) -> Response | None:
        if not isinstance(item, JsonRpcRequest):
            return item
        if item.method == "interop_subscribe" and item.params == ["events"]:
            return success_response(item.id, self._subscribe())
        if item.method == "interop_unsubscribe" and isinstance(item.params, list):
            notify = self._subscriptions.pop(str(item.params[:1] and item.params[0]), None)
            self._stream.unsubscribe(notify)
            if notify is None:
                return error_response(item.id, JsonRpcError(-32000, "subscription not found"))
            return success_response(item.id, True)
        response = await self._http.call(item)
        return None if item.is_notification else response

    def _subscribe(self) -> str:
        """A new subscription; it begins with the events after the response."""
        subscription = f"0x{secrets.token_hex(16)}"

        def notify(result: Mapping[str, Any]) -> None:
            params = {"subscription": subscription, "result": result}
            self._put({"jsonrpc": "2.0", "method": "interop_subscription", "params": params})

        self._subscriptions = {subscription: notify}
        return subscription

    def _begin(self, body: ParsedBody) -> None:
        if any(isinstance(item, JsonRpcRequest) and item.method == "interop_subscribe" for item in body.items):
            for notify in self._subscriptions.values():
                self._stream.subscribe(notify)

    def _put(self, message: Any) -> None:
        try:
            self._waiting.put_nowait(orjson.dumps(message))
        except asyncio.QueueFull:
            self._disconnect("the supervisor reads too slowly")

    async def _send(self) -> None:
        while True:
            message = await self._waiting.get()
            try:
                async with asyncio.timeout(SEND_SECONDS):
                    await self._socket.send_str(message.decode())
            except (TimeoutError, ConnectionError):
                self._disconnect("the supervisor does not read")
                return

    def _disconnect(self, reason: str) -> None:
        log.warn("closing the interop connection", reason=reason)
        for notify in self._subscriptions.values():
            self._stream.unsubscribe(notify)
        self._transport.abort()
