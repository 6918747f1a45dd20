"""The server for an interop supervisor: JSON-RPC by WebSocket and HTTP with a JWT, and its events [IOP1, IOP6]."""

import time
from collections.abc import Mapping
from functools import partial
from typing import Any

from aiohttp import web

from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.messages.interop import DECISIONS
from rollup_node.stages.protocol.errors import SERVER_ERROR
from rollup_node.stages.protocol.jwt_token import token_error
from rollup_node.stages.rpc import jsonrpc
from rollup_node.stages.rpc.jsonrpc import JsonRpcError, JsonRpcRequest, ParsedBody, Response
from rollup_node.stages.rpc.process.http_server import RpcServer
from rollup_node.stages.rpc.process.interop_methods import EventStream, InteropClient, interop_methods
from rollup_node.stages.rpc.process.listener import Exchange
from rollup_node.stages.rpc.process.node_view import NodeView
from rollup_node.stages.rpc.process.status_source import StatusSource
from rollup_node.stages.rpc.process.websocket import (
    AcceptedSocket,
    OpenSessions,
    Session,
    asks_for_websocket,
    new_subscription,
    subscription,
)

VERSION = "v0.0.0"
MAX_MESSAGE = 5 << 20
MAX_WAITING_BYTES = 64 << 20
"""What waits to be sent to one client, without the last message: the receipts of a block have no limit of their own."""

LABEL = "interop_indexing"
ORDERED = frozenset(f"interop_{name}" for name in (*DECISIONS, "subscribe", "unsubscribe", "pullEvent"))
"""Methods that one connection may count on to be run in the order in which it called them [IOP31]."""


class InteropRpcServer:
    """Handles requests with a token of `jwt_secret`."""

    def __init__(
        self, node: NodeView, status: StatusSource, client: InteropClient, jwt_secret: bytes, meter: Meter
    ) -> None:
        self.client, self._secret = client, jwt_secret
        self._http = RpcServer(node, status, meter, interop_methods(client), LABEL)
        self._sessions = OpenSessions[_Session]()
        self.close = self._sessions.close

    async def handle(self, request: web.BaseRequest, exchange: Exchange) -> web.StreamResponse:
        """Answer an HTTP request, which may become a WebSocket connection."""
        if request.path in ("/healthz", "/healthz/"):
            return web.json_response({"version": VERSION})
        error = token_error(request.headers.get("Authorization", ""), self._secret, time.time())
        if error is not None:
            return web.Response(status=401, text=f"{error}\n")
        if asks_for_websocket(request):
            new_session = partial(_Session, self._http, self.client.stream)
            return await self._sessions.serve(request, exchange, MAX_MESSAGE, new_session)
        return await self._http.handle(request, exchange)

    @property
    def waiting_bytes(self) -> int:
        """The bytes that wait to be sent to all clients by WebSocket."""
        return sum(session.waiting_bytes for session in self._sessions.open)


class _Session(Session):
    """The connection of an interop supervisor, with at most one subscription of events [IOP31]."""

    def __init__(self, http: RpcServer, stream: EventStream, connection: AcceptedSocket) -> None:
        super().__init__(connection, MAX_WAITING_BYTES)
        self._http, self._stream = http, stream
        self._subscriptions: dict[str, Any] = {}

    async def respond(self, item: JsonRpcRequest, deadline: float, size: int) -> Response | None:
        if item.method == "interop_subscribe" and item.params == ["events"]:
            return jsonrpc.success_response(item.id, self._subscribe())
        if item.method == "interop_unsubscribe" and isinstance(item.params, list):
            notify = self._subscriptions.pop(str(item.params[:1] and item.params[0]), None)
            self._stream.unsubscribe(notify)
            if notify is None:
                return jsonrpc.error_response(item.id, JsonRpcError(SERVER_ERROR, "subscription not found"))
            return jsonrpc.success_response(item.id, True)
        response = await self._http.call(item, deadline, size)
        return None if item.is_notification else response

    def _subscribe(self) -> str:
        """Return a new subscription; it begins with the events after the response."""
        name = new_subscription()
        notification = subscription("interop_subscription", name)

        def notify(result: Mapping[str, Any]) -> None:
            self.put(notification(result))

        self._subscriptions = {name: notify}
        return name

    def answered(self, body: ParsedBody) -> None:
        if any(isinstance(item, JsonRpcRequest) and item.method == "interop_subscribe" for item in body.items):
            for notify in self._subscriptions.values():
                self._stream.subscribe(notify)

    def is_ordered(self, body: ParsedBody) -> bool:
        return any(isinstance(item, JsonRpcRequest) and item.method in ORDERED for item in body.items)

    def ended(self) -> None:
        for notify in self._subscriptions.values():
            self._stream.unsubscribe(notify)
