"""JSON-RPC by WebSocket with subscriptions of the L2 heads, as kona-node has them [RPC100]."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from aiohttp import web

from rollup_node.stages.messages.engine import EngineStatus
from rollup_node.stages.protocol.errors import INVALID_PARAMS, RESPONSE_TOO_LARGE, SERVER_ERROR
from rollup_node.stages.protocol.types import L2BlockRef
from rollup_node.stages.rpc import jsonrpc
from rollup_node.stages.rpc.jsonrpc import JsonRpcError, JsonRpcRequest, ParsedBody, Response
from rollup_node.stages.rpc.process.http_server import RpcServer
from rollup_node.stages.rpc.process.listener import Exchange
from rollup_node.stages.rpc.process.node_view import NodeView
from rollup_node.stages.rpc.process.websocket import (
    AcceptedSocket,
    OpenSessions,
    Session,
    asks_for_websocket,
    new_subscription,
    subscription,
)
from rollup_node.stages.rpc.responses import l2_ref

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


class WebSocketRpcServer:
    """Serves what `http` does by WebSocket too, as one call a message."""

    def __init__(self, http: RpcServer, node: NodeView) -> None:
        self._http, self._node = http, node
        self._sessions = OpenSessions[_HeadSession]()
        self.close = self._sessions.close
        node.on_engine = self._notify

    async def handle(self, request: web.BaseRequest, exchange: Exchange) -> web.StreamResponse:
        """Answer an HTTP request, which may become a WebSocket connection."""
        access = self._http.access
        # The others are refused as every request is.
        if not asks_for_websocket(request) or not access.accepts_host(request.headers.get("Host")):
            return await self._http.handle(request, exchange)
        if not access.accepts_origin(request.headers.get("Origin")):
            return web.Response(status=403, text="origin not allowed; name it in rpc.corsdomain\n")
        if self.connections >= MAX_SESSIONS:
            return web.Response(status=503, text=f"{MAX_SESSIONS} clients are connected by WebSocket already\n")
        admin_error = access.admin_error(request.headers.get("Authorization", ""), time.time())
        new_session = partial(_HeadSession, self._http, self._node, admin_error)
        return await self._sessions.serve(request, exchange, MAX_MESSAGE, new_session)

    @property
    def connections(self) -> int:
        """How many there are."""
        return len(self._sessions.open)

    def _notify(self, status: EngineStatus) -> None:
        for session in list(self._sessions.open):
            session.notify(status)


class _Head:
    """One subscription: the head that was sent last, or was there when it began."""

    def __init__(self, method: str, name: str) -> None:
        self.method, self.notification = method, subscription(method, name)
        self.last: L2BlockRef | None = None
        self.has_begun = False


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
        name = new_subscription()
        self._heads[name] = _Head(method, name)
        return name

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
        status = self._node.engine
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
