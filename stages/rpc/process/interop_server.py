"""The server for a supervisor: JSON-RPC by WebSocket and HTTP with a JWT, and a subscription of events [IOP1, IOP6]."""

import asyncio
import secrets
import time
from collections.abc import Mapping
from contextlib import nullcontext
from functools import partial
from typing import Any

import orjson
from aiohttp import WSMsgType, web

from rollup_node.stages.io.log.logger import get_logger
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.interop import DECISIONS
from rollup_node.stages.protocol.jwt_token import token_error
from rollup_node.stages.rpc import jsonrpc
from rollup_node.stages.rpc.jsonrpc import JsonRpcError, JsonRpcRequest, ParsedBody, Response
from rollup_node.stages.rpc.process.http_server import CALL_SECONDS, RpcServer
from rollup_node.stages.rpc.process.interop_methods import EventStream, InteropClient, interop_methods
from rollup_node.stages.rpc.process.listener import Exchange
from rollup_node.stages.rpc.process.node_view import NodeView
from rollup_node.stages.rpc.process.status_source import StatusSource

VERSION = "v0.0.0"
MAX_MESSAGE = 5 << 20
MAX_WAITING = 512
"""Messages that wait to be sent to one client; a client that is slower is disconnected."""

MAX_WAITING_BYTES = 64 << 20
"""The same in bytes, without the last one: the receipts of a block have no limit of their own."""

MAX_CALLS = 16
"""Messages of one connection that are answered at the same time; beyond that the next waits, and none is read."""

SEND_SECONDS = 10.0
PING_SECONDS = 30.0
LABEL = "interop_indexing"
ORDERED = frozenset(f"interop_{name}" for name in (*DECISIONS, "subscribe", "unsubscribe", "pullEvent"))
"""Methods that one connection may count on to be run in the order in which it called them [IOP31]."""

log = get_logger("rpc")


class InteropRpcServer:
    """Handles requests with a token of `jwt_secret`."""

    def __init__(
        self, node: NodeView, status: StatusSource, client: InteropClient, jwt_secret: bytes, meter: Meter
    ) -> None:
        self.client, self._secret = client, jwt_secret
        self._http = RpcServer(node, status, meter, interop_methods(client), LABEL)
        self._sessions: set[_Session] = set()

    async def handle(self, request: web.BaseRequest, exchange: Exchange) -> web.StreamResponse:
        """Answer an HTTP request, which may become a WebSocket connection."""
        if request.path in ("/healthz", "/healthz/"):
            return web.json_response({"version": VERSION})
        error = token_error(request.headers.get("Authorization", ""), self._secret, time.time())
        if error is not None:
            return web.Response(status=401, text=f"{error}\n")
        if request.headers.get("Upgrade", "").lower() == "websocket" and request.path in ("/", "/ws"):
            return await self._serve_websocket(request, exchange)
        return await self._http.handle(request, exchange)

    @property
    def waiting_bytes(self) -> int:
        """The bytes that wait to be sent to all clients by WebSocket."""
        return sum(session.waiting_bytes for session in self._sessions)

    async def close(self) -> None:
        """End the WebSocket connections."""
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
    """One WebSocket connection: a task answers each message, notifications come in between [IOP31]."""

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
        self.waiting_bytes = 0
        self._subscriptions: dict[str, Any] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._free = asyncio.Semaphore(MAX_CALLS)
        self._in_order = asyncio.Lock()
        self._held = 0

    async def run(self) -> None:
        """Serve until the connection ends."""
        sender = asyncio.create_task(self._send(), name="interop notifications")
        try:
            async for message in self._socket:
                if message.type not in (WSMsgType.TEXT, WSMsgType.BINARY):
                    break
                await self._take(message.data.encode() if isinstance(message.data, str) else message.data)
        finally:
            for notify in self._subscriptions.values():
                self._stream.unsubscribe(notify)
            tasks = (sender, *self._tasks)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def close(self) -> None:
        await self._socket.close()

    async def _take(self, data: bytes) -> None:
        """Start to answer a message, once fewer than MAX_CALLS are under way."""
        size = len(data) + jsonrpc.count_values(data) * jsonrpc.VALUE_BYTES
        self._held += size
        self._exchange.release(self._held)
        await self._free.acquire()
        task = asyncio.create_task(self._answer(data), name="interop call")
        self._tasks.add(task)
        task.add_done_callback(partial(self._answered, size))

    def _answered(self, size: int, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._held -= size
        self._exchange.hold(-size)
        self._free.release()
        if not task.cancelled() and (bug := task.exception()) is not None:
            log.crash("interop call crashed", bug)
            self._disconnect("a call crashed")

    async def _answer(self, data: bytes) -> None:
        deadline = time.monotonic() + CALL_SECONDS
        try:
            body = jsonrpc.parse_body(data)
        except JsonRpcError as error:
            self._put(orjson.dumps(jsonrpc.error_response(None, error)))
            return
        # Tasks start in the order of their messages, and a lock is taken in the order of its waiters.
        async with self._in_order if _is_ordered(body) else nullcontext():
            await self._answer_body(body, deadline)

    async def _answer_body(self, body: ParsedBody, deadline: float) -> None:
        responses: list[bytes] = []
        size = 0
        for item in body.items:
            response = await self._respond(item, deadline, size)
            if response is not None:
                responses.append(orjson.dumps(response))
                size += len(responses[-1])
        if responses:
            self._put(b"[" + b",".join(responses) + b"]" if body.is_batch else responses[0])
        self._begin(body)

    async def _respond(self, item: JsonRpcRequest | Response, deadline: float, size: int) -> Response | None:
        if not isinstance(item, JsonRpcRequest):
            return item
        if item.method == "interop_subscribe" and item.params == ["events"]:
            return jsonrpc.success_response(item.id, self._subscribe())
        if item.method == "interop_unsubscribe" and isinstance(item.params, list):
            notify = self._subscriptions.pop(str(item.params[:1] and item.params[0]), None)
            self._stream.unsubscribe(notify)
            if notify is None:
                return jsonrpc.error_response(item.id, JsonRpcError(-32000, "subscription not found"))
            return jsonrpc.success_response(item.id, True)
        response = await self._http.call(item, deadline, size)
        return None if item.is_notification else response

    def _subscribe(self) -> str:
        """Return a new subscription; it begins with the events after the response."""
        subscription = f"0x{secrets.token_hex(16)}"

        def notify(result: Mapping[str, Any]) -> None:
            params = {"subscription": subscription, "result": result}
            self._put(orjson.dumps({"jsonrpc": "2.0", "method": "interop_subscription", "params": params}))

        self._subscriptions = {subscription: notify}
        return subscription

    def _begin(self, body: ParsedBody) -> None:
        if any(isinstance(item, JsonRpcRequest) and item.method == "interop_subscribe" for item in body.items):
            for notify in self._subscriptions.values():
                self._stream.subscribe(notify)

    def _put(self, message: bytes) -> None:
        if self._transport.is_closing():
            return
        if self._waiting.full() or self.waiting_bytes > MAX_WAITING_BYTES:
            self._disconnect("the supervisor reads too slowly")
            return
        self._waiting.put_nowait(message)
        self.waiting_bytes += len(message)

    async def _send(self) -> None:
        while True:
            message = await self._waiting.get()
            self.waiting_bytes -= len(message)
            try:
                async with asyncio.timeout(SEND_SECONDS):
                    await self._socket.send_frame(message, WSMsgType.TEXT)
            except (TimeoutError, ConnectionError):
                self._disconnect("the supervisor does not read")
                return

    def _disconnect(self, reason: str) -> None:
        log.warn("closing the interop connection", code=Code.RPC_CLIENTS.text, reason=reason)
        for notify in self._subscriptions.values():
            self._stream.unsubscribe(notify)
        self._transport.abort()


def _is_ordered(body: ParsedBody) -> bool:
    return any(isinstance(item, JsonRpcRequest) and item.method in ORDERED for item in body.items)
