"""The server for an interop supervisor: JSON-RPC by WebSocket and HTTP with a JWT, and its events [IOP1 to IOP22]."""

import time
from collections import deque
from collections.abc import Callable, Collection
from functools import partial
from typing import Any

import orjson
from aiohttp import web

from rollup_node.ipc.bus.bus import Bus, GroupView
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.io.requests import RequestClient
from rollup_node.stages.io.task import PeriodicTask
from rollup_node.stages.messages.interop import (
    DECISIONS,
    DerivedPair,
    InteropEvent,
    InteropEvents,
    InteropEventsRequest,
    InteropRequest,
    InteropResponse,
)
from rollup_node.stages.protocol.block_refs import ref_object
from rollup_node.stages.protocol.errors import METHOD_NOT_FOUND, SERVER_ERROR
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.jwt_token import token_error
from rollup_node.stages.protocol.types import BlockId, BlockRef
from rollup_node.stages.rpc import jsonrpc, parameters
from rollup_node.stages.rpc.jsonrpc import JsonRpcError, JsonRpcRequest, ParsedBody, Response
from rollup_node.stages.rpc.parameters import Method, Parser
from rollup_node.stages.rpc.process.http_server import RpcServer
from rollup_node.stages.rpc.process.listener import Exchange
from rollup_node.stages.rpc.process.methods import shown
from rollup_node.stages.rpc.process.node_view import NodeView, answer
from rollup_node.stages.rpc.process.status_source import StatusSource
from rollup_node.stages.rpc.process.websocket import (
    AcceptedSocket,
    RpcSubscription,
    Session,
    SessionServer,
    asks_for_websocket,
)

MAX_QUEUED = 100
REPEAT_SECONDS = 1.0
OUT_OF_EVENTS = -39001

Notify = Callable[[dict[str, Any]], None]
"""Sends the result of a notification to the subscriber."""


class InteropClient:
    """The client of `engine.interop`: calls, and the events, which are asked for again every second.

    Of them there is one subscriber at a time, else they wait, the oldest dropped; `last` is the last one's number."""

    def __init__(self, bus: Bus | GroupView) -> None:
        self.last = 0
        self._queue: deque[InteropEvent] = deque(maxlen=MAX_QUEUED)
        self._notify: Notify | None = None
        self._client = RequestClient(bus, "engine.interop", self._take_events)
        self.periodic_task = PeriodicTask("interop events", self._step)

    def add(self, number: int, event: InteropEvent) -> None:
        """Take an event, unless it was taken before or waits as the last: needs are repeated until pulled [IOP29]."""
        if number <= self.last:
            return
        self.last = number
        if self._notify is not None:
            self._notify({"data": shown_event(event)})
        elif not self._queue or self._queue[-1] != event:
            self._queue.append(event)

    def subscribe(self, notify: Notify) -> None:
        """Send all further events to a new subscriber; waiting ones are dropped, and the earlier subscriber's end."""
        self._notify = notify
        self._queue.clear()

    def unsubscribe(self, notify: Notify) -> None:
        """Send no more to a subscriber."""
        if self._notify is notify:
            self._notify = None

    def pull(self) -> dict[str, Any]:
        """Return the oldest event; ends the subscription. Raises JsonRpcError when none waits."""
        notify, self._notify = self._notify, None
        if notify is not None:
            notify({"data": None, "close": True})
        if not self._queue:
            raise JsonRpcError(OUT_OF_EVENTS, "out of events")
        return shown_event(self._queue.popleft())

    async def call(self, method: str, **params: Any) -> Any:
        """Return the result of a method of the engine process, as JSON text. Raises JsonRpcError with its error."""
        response = await answer(self._client, InteropResponse, partial(InteropRequest, **params), method)
        return orjson.Fragment(response.result)

    def _take_events(self, message: Any) -> None:
        if isinstance(message, InteropEvents):
            for number, event in message.events:
                self.add(number, event)

    async def _step(self) -> float:
        self._client.send(InteropEventsRequest(self.last))
        return REPEAT_SECONDS


def shown_event(event: InteropEvent) -> dict[str, Any]:
    """Return the event as JSON; what is absent is left out [IOP21]."""
    replaced = event.replace_block
    result = {
        "reset": event.reset,
        "unsafeBlock": _block(event.unsafe_block),
        "derivationUpdate": _pair(event.derivation_update),
        "exhaustL1": _pair(event.exhaust_l1),
        "replaceBlock": None
        if replaced is None
        else {"replacement": _block(replaced.replacement), "invalidated": to_hex(replaced.invalidated)},
        "derivationOriginUpdate": _block(event.derivation_origin_update),
    }
    return {name: value for name, value in result.items() if value is not None}


def _pair(pair: DerivedPair | None) -> dict[str, Any] | None:
    return None if pair is None else {"source": _block(pair.source), "derived": _block(pair.derived)}


def _block(ref: BlockRef | None) -> dict[str, Any] | None:
    return None if ref is None else ref_object(ref)


def interop_methods(client: InteropClient) -> tuple[Method, ...]:
    async def subscribe(node: NodeView, topic: str) -> Any:
        # Over a WebSocket the session answers it.
        raise JsonRpcError(METHOD_NOT_FOUND, "notifications not supported")

    def called(name: str, fields: Callable[..., dict[str, Any]], *parsers: Parser) -> Method:
        """Return the method that the engine process runs with fields of InteropRequest made of the parameters."""

        async def run(node: NodeView, *values: Any) -> Any:
            return await client.call(name, **fields(*values))

        return Method(f"interop_{name}", run, parsers)

    def blocks(*blocks: BlockId) -> dict[str, Any]:
        return {"blocks": blocks}

    def number(value: int) -> dict[str, Any]:
        return {"number": value}

    return (
        Method("interop_pullEvent", shown(lambda node: client.pull())),
        Method("interop_chainID", shown(lambda node: str(node.config.rollup.l2_chain_id))),
        Method("interop_subscribe", subscribe, (parameters.string,)),
        called("updateCrossUnsafe", blocks, parameters.block_id),
        called("updateCrossSafe", blocks, parameters.block_id, parameters.block_id),
        called("updateFinalized", blocks, parameters.block_id),
        called("invalidateBlock", blocks, parameters.block_seal),
        called("anchorPoint", blocks),
        called("reset", blocks, *(parameters.block_id,) * 5),
        called("resetPreInterop", blocks),
        called("provideL1", lambda block: {"l1": block}, parameters.block_reference),
        called("fetchReceipts", lambda wanted: blocks(BlockId(0, wanted)), parameters.block_hash),
        called("l2BlockRefByNumber", number, parameters.number),
        called("l2BlockRefByTimestamp", number, parameters.number),
        called("outputV0AtTimestamp", number, parameters.number),
        called("pendingOutputV0AtTimestamp", number, parameters.number),
    )


# --- the server ------------------------------------------------------------------------------------------------------

VERSION = "v0.0.0"
MAX_MESSAGE = 5 << 20
MAX_WAITING_BYTES = 64 << 20
"""What waits to be sent to one client, without the last message: the receipts of a block have no limit of their own."""

LABEL = "interop_indexing"
ORDERED = frozenset(f"interop_{name}" for name in (*DECISIONS, "subscribe", "unsubscribe", "pullEvent"))
"""Methods that one connection may count on to be run in the order in which it called them [IOP31]."""


class InteropRpcServer(SessionServer["_Session"]):
    """Handles requests with a token of `jwt_secret`."""

    def __init__(
        self, node: NodeView, status: StatusSource, client: InteropClient, jwt_secret: bytes, meter: Meter
    ) -> None:
        super().__init__()
        self.client, self._secret = client, jwt_secret
        self._http = RpcServer(node, status, meter, interop_methods(client), LABEL)

    async def handle(self, request: web.BaseRequest, exchange: Exchange) -> web.StreamResponse:
        """Answer an HTTP request, which may become a WebSocket connection."""
        if request.path in ("/healthz", "/healthz/"):
            return web.json_response({"version": VERSION})
        error = token_error(request.headers.get("Authorization", ""), self._secret, time.time())
        if error is not None:
            return web.Response(status=401, text=f"{error}\n")
        if asks_for_websocket(request):
            new_session = partial(_Session, self._http, self.client)
            return await self.serve(request, exchange, MAX_MESSAGE, new_session)
        return await self._http.handle(request, exchange)


class _Session(Session):
    """The connection of an interop supervisor, with at most one subscription of events [IOP31]."""

    def __init__(self, http: RpcServer, client: InteropClient, connection: AcceptedSocket) -> None:
        super().__init__(connection, MAX_WAITING_BYTES)
        self._http, self._client = http, client
        self._name, self._notify = "", lambda result: None

    async def respond(self, item: JsonRpcRequest, deadline: float, size: int) -> Response | None:
        if item.method == "interop_subscribe" and item.params == ["events"]:
            return jsonrpc.success_response(item.id, self._subscribe())
        if item.method == "interop_unsubscribe" and isinstance(item.params, list):
            if not self._name or item.params[:1] != [self._name]:
                return jsonrpc.error_response(item.id, JsonRpcError(SERVER_ERROR, "subscription not found"))
            self._name = ""
            self.ended()
            return jsonrpc.success_response(item.id, True)
        response = await self._http.call(item, deadline, size)
        return None if item.is_notification else response

    def _subscribe(self) -> str:
        """Return a new subscription; it begins with the events after the response."""
        new = RpcSubscription("interop_subscription")
        self._name, self._notify = new.name, lambda result: self.put(new.notification(result))
        return new.name

    def answered(self, body: ParsedBody) -> None:
        if self._name and _calls(body, ("interop_subscribe",)):
            self._client.subscribe(self._notify)

    def is_ordered(self, body: ParsedBody) -> bool:
        return _calls(body, ORDERED)

    def ended(self) -> None:
        self._client.unsubscribe(self._notify)


def _calls(body: ParsedBody, methods: Collection[str]) -> bool:
    """Return whether a message calls one of these methods."""
    return any(isinstance(item, JsonRpcRequest) and item.method in methods for item in body.items)
