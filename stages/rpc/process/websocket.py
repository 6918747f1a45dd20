"""JSON-RPC by WebSocket: calls at the same time, notifications in between; subscriptions of the L2 heads [RPC100]."""

import asyncio
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

import orjson
from aiohttp import WSMsgType, web

from rollup_node.stages.io.log.logger import Logger
from rollup_node.stages.io.task import cancel_all
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.engine import EngineStatus
from rollup_node.stages.protocol.errors import INVALID_PARAMS, RESPONSE_TOO_LARGE, SERVER_ERROR
from rollup_node.stages.protocol.types import L2BlockRef
from rollup_node.stages.rpc import jsonrpc
from rollup_node.stages.rpc.jsonrpc import JsonRpcError, JsonRpcRequest, ParsedBody, Response
from rollup_node.stages.rpc.process.http_server import CALL_SECONDS, RpcServer
from rollup_node.stages.rpc.process.listener import INVALID_ORIGIN, Exchange
from rollup_node.stages.rpc.process.node_view import NodeView
from rollup_node.stages.rpc.responses import l2_ref

MAX_WAITING = 512
"""Messages that wait to be sent to one client; a client that is slower is disconnected."""

MAX_CALLS = 16
"""Messages of one connection that are answered at the same time; beyond that the next waits, and none is read."""

SEND_SECONDS = 10.0
PING_SECONDS = 30.0

log = Logger("rpc")


def asks_for_websocket(request: web.BaseRequest) -> bool:
    """Whether a request is to become a WebSocket connection."""
    return request.headers.get("Upgrade", "").lower() == "websocket" and request.path in ("/", "/ws")


class AcceptedSocket(NamedTuple):
    """What a request by HTTP has become."""

    socket: web.WebSocketResponse
    transport: asyncio.Transport
    exchange: Exchange


class Session(ABC):
    """One connection; a subclass answers the calls. `longest_wait` is how many bytes may wait, without the last."""

    def __init__(self, connection: AcceptedSocket, longest_wait: int) -> None:
        self._socket, self._transport, self._exchange = connection
        self._longest_wait = longest_wait
        self._waiting: asyncio.Queue[bytes] = asyncio.Queue(MAX_WAITING)
        self.waiting_bytes = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._free = asyncio.Semaphore(MAX_CALLS)
        self._in_order = asyncio.Lock()
        self._held = 0

    @abstractmethod
    async def respond(self, item: JsonRpcRequest, deadline: float, size: int) -> Response | None:
        """Return the response to a call, None for a notification; `size` is that of the batch's responses so far."""

    @abstractmethod
    def answered(self, body: ParsedBody) -> None:
        """Do what follows the responses to a message: they are sent before what this sends."""

    @abstractmethod
    def is_ordered(self, body: ParsedBody) -> bool:
        """Whether a message is answered only after those before it of which this is true."""

    @abstractmethod
    def ended(self) -> None:
        """Send nothing any more: the connection is or will be closed."""

    async def run(self) -> None:
        """Serve until the connection ends."""
        sender = asyncio.create_task(self._send(), name="websocket notifications")
        try:
            async for message in self._socket:
                if message.type not in (WSMsgType.TEXT, WSMsgType.BINARY):
                    break
                await self._take(message.data.encode() if isinstance(message.data, str) else message.data)
        finally:
            self.ended()
            tasks = (sender, *self._tasks)
            await cancel_all(tasks)

    async def close(self) -> None:
        await self._socket.close()

    async def _take(self, data: bytes) -> None:
        """Start to answer a message, once fewer than MAX_CALLS are under way."""
        size = len(data) + jsonrpc.count_values(data) * jsonrpc.VALUE_BYTES
        self._held += size
        self._exchange.stream(self._held)
        await self._free.acquire()
        task = asyncio.create_task(self._answer(data), name="websocket call")
        self._tasks.add(task)
        task.add_done_callback(partial(self._done, size))

    def _done(self, size: int, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._held -= size
        self._exchange.hold(-size)
        self._free.release()
        if not task.cancelled() and (bug := task.exception()) is not None:
            log.crash("websocket call crashed", bug)
            self._disconnect("a call crashed")

    async def _answer(self, data: bytes) -> None:
        deadline = time.monotonic() + CALL_SECONDS
        try:
            body = jsonrpc.parse_body(data)
        except JsonRpcError as error:
            self.put(jsonrpc.error_response(None, error))
            return
        # Tasks start in the order of their messages, and a lock is taken in the order of its waiters.
        async with self._in_order if self.is_ordered(body) else nullcontext():
            await self._answer_body(body, deadline)

    async def _answer_body(self, body: ParsedBody, deadline: float) -> None:
        responses: list[bytes] = []
        size = 0
        for item in body.items:
            response = await self.respond(item, deadline, size) if isinstance(item, JsonRpcRequest) else item
            if response is not None:
                responses.append(orjson.dumps(response))
                size += len(responses[-1])
        if responses:
            self._put(b"[" + b",".join(responses) + b"]" if body.is_batch else responses[0])
        self.answered(body)

    def put(self, message: Any) -> None:
        """Send an object, after those that wait; a client that is too slow is disconnected."""
        self._put(orjson.dumps(message))

    def _put(self, message: bytes) -> None:
        if self._transport.is_closing():
            return
        if self._waiting.full() or self.waiting_bytes > self._longest_wait:
            self._disconnect("the client reads too slowly")
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
                self._disconnect("the client does not read")
                return

    def _disconnect(self, reason: str) -> None:
        log.warn("closing a WebSocket connection", code=Code.RPC_CLIENTS.text, reason=reason)
        self.ended()
        self._transport.abort()


S = TypeVar("S", bound=Session)


class SessionServer(Generic[S]):
    """The open connections of a server."""

    def __init__(self) -> None:
        self.sessions: set[S] = set()

    async def serve(
        self, request: web.BaseRequest, exchange: Exchange, longest: int, new_session: Callable[[AcceptedSocket], S]
    ) -> web.StreamResponse:
        """Serve the connection that a request becomes, until it ends; a message has at most `longest` bytes."""
        socket = web.WebSocketResponse(max_msg_size=longest, heartbeat=PING_SECONDS, compress=False)
        transport = request.transport
        if not socket.can_prepare(request) or transport is None:
            return web.Response(status=400, text="not a WebSocket request\n")
        await socket.prepare(request)
        exchange.stream(0)
        session = new_session(AcceptedSocket(socket, transport, exchange))
        self.sessions.add(session)
        try:
            await session.run()
        finally:
            self.sessions.discard(session)
        return socket

    async def close(self) -> None:
        """End the connections."""
        for session in list(self.sessions):
            await session.close()


class RpcSubscription:
    """One subscription of a client, by a name that no other client can guess."""

    def __init__(self, method: str) -> None:
        self.method, self.name = method, f"0x{secrets.token_hex(16)}"

    def notification(self, result: Any) -> dict[str, Any]:
        """Return the notification of a result."""
        params = {"subscription": self.name, "result": result}
        return {"jsonrpc": "2.0", "method": self.method, "params": params}


# --- subscriptions of the heads, as kona-node has them ---------------------------------------------------------------

HEADS: dict[str, Callable[[EngineStatus], L2BlockRef | None]] = {
    "ws_subscribe_unsafe_head": lambda status: status.unsafe,
    "ws_subscribe_safe_head": lambda status: status.safe,
    "ws_subscribe_finalized_head": lambda status: status.finalized,
}
_ENDS = {method.replace("_subscribe_", "_unsubscribe_"): method for method in HEADS}
MAX_SESSIONS = 64
MAX_SUBSCRIPTIONS = 16
"""Of one connection."""

MAX_MESSAGE = 64 << 10
MAX_WAITING_BYTES = 256 << 10
"""What waits to be sent to one client, without the last message; and the responses to a batch, without the last."""


class WebSocketRpcServer(SessionServer["_HeadSession"]):
    """Serves what `http` does by WebSocket too, as one call a message."""

    def __init__(self, http: RpcServer, node: NodeView) -> None:
        super().__init__()
        self._http, self._node = http, node
        node.on_engine = self._notify

    async def handle(self, request: web.BaseRequest, exchange: Exchange) -> web.StreamResponse:
        """Answer an HTTP request, which may become a WebSocket connection."""
        access = self._http.access
        # The others are refused as every request is.
        if not asks_for_websocket(request) or not access.accepts_host(request.headers.get("Host")):
            return await self._http.handle(request, exchange)
        if not access.accepts_origin(request.headers.get("Origin")):
            return web.Response(status=403, text=INVALID_ORIGIN)
        if len(self.sessions) >= MAX_SESSIONS:
            return web.Response(status=503, text=f"{MAX_SESSIONS} clients are connected by WebSocket already\n")
        admin_error = access.admin_error(request.headers.get("Authorization", ""), time.time())
        new_session = partial(_HeadSession, self._http, self._node, admin_error)
        return await self.serve(request, exchange, MAX_MESSAGE, new_session)

    def _notify(self, status: EngineStatus) -> None:
        for session in list(self.sessions):
            session.notify(status)


class _Head(RpcSubscription):
    """One of a head: that which was sent last, or was there when it began."""

    last: L2BlockRef | None = None
    has_begun = False


class _HeadSession(Session):
    """The connection of a client; without an `admin_error` it had a token when it connected, or needs none."""

    def __init__(self, http: RpcServer, node: NodeView, admin_error: str | None, connection: AcceptedSocket) -> None:
        super().__init__(connection, MAX_WAITING_BYTES)
        self._http, self._node, self._admin_error = http, node, admin_error
        self._heads: dict[str, _Head] = {}

    async def respond(self, item: JsonRpcRequest, deadline: float, size: int) -> Response | None:
        try:
            if size > MAX_WAITING_BYTES:
                raise JsonRpcError(RESPONSE_TOO_LARGE, "response too large")
            if item.method in HEADS:
                result: Any = self._subscribe(item.method)
            elif item.method in _ENDS:
                result = self._unsubscribe(item.params, _ENDS[item.method])
            else:
                response = await self._http.call(item, deadline, size, self._admin_error)
                return None if item.is_notification else response
            response = jsonrpc.success_response(item.id, result)
        except JsonRpcError as error:
            response = jsonrpc.error_response(item.id, error)
        return None if item.is_notification else response

    def _subscribe(self, method: str) -> str:
        if len(self._heads) >= MAX_SUBSCRIPTIONS:
            raise JsonRpcError(SERVER_ERROR, f"a connection has at most {MAX_SUBSCRIPTIONS} subscriptions")
        head = _Head(method)
        self._heads[head.name] = head
        return head.name

    def _unsubscribe(self, params: Any, method: str) -> bool:
        if not isinstance(params, list) or len(params) != 1:
            raise JsonRpcError(INVALID_PARAMS, "the id of the subscription is needed, and nothing else")
        head = self._heads.get(str(params[0]))
        if head is None or head.method != method:
            return False
        return self._heads.pop(str(params[0])) is head

    def is_ordered(self, body: ParsedBody) -> bool:
        # So that the responses of one batch at most are in the making.
        return body.is_batch

    def answered(self, body: ParsedBody) -> None:
        status = self._node.seen.engine
        for head in self._heads.values():
            if not head.has_begun:
                head.has_begun = True
                head.last = None if status is None else HEADS[head.method](status)

    def notify(self, status: EngineStatus) -> None:
        """Send each head that has changed. None, while a start is searched for, is no change."""
        for head in list(self._heads.values()):
            ref = HEADS[head.method](status)
            if head.has_begun and ref is not None and ref != head.last:
                head.last = ref
                self.put(head.notification(l2_ref(ref)))

    def ended(self) -> None:
        self._heads.clear()
