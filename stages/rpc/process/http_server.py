"""JSON-RPC, `/healthz`, `/readyz` and `/status.json` over HTTP, as op-node and go-ethereum do it [RPC1 to RPC11]."""

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import orjson
from aiohttp import web

from rollup_node.stages.io import tracing
from rollup_node.stages.io.log.logger import Logger
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.protocol.errors import INTERNAL_ERROR, RESPONSE_TOO_LARGE, SERVER_ERROR, TIMEOUT
from rollup_node.stages.rpc import jsonrpc
from rollup_node.stages.rpc.access import ANY, Access
from rollup_node.stages.rpc.jsonrpc import JsonRpcError, JsonRpcRequest, ParsedBody, Response
from rollup_node.stages.rpc.parameters import Method, parse_params
from rollup_node.stages.rpc.process.listener import (
    INVALID_HOST,
    INVALID_ORIGIN,
    MALFORMED,
    NOT_FOUND,
    TURN_SECONDS,
    Exchange,
    RequestTooLargeError,
)
from rollup_node.stages.rpc.process.node_view import NodeView
from rollup_node.stages.rpc.process.status_source import StatusSource
from rollup_node.stages.rpc.process.supernode import Supernode, SupernodeStatus
from rollup_node.stages.rpc.status.readiness import read_lag

GUARDED = ("admin_", "opstack_")
"""Methods that need a token where there is a secret [RPC88]."""

log = Logger("rpc")

MAX_BODY = 5 << 20
CALL_SECONDS = 29.9
LONG_BODY = 16 << 10
"""Parsing more than this takes a turn."""

CONTENT_TYPES = ("application/json", "application/json-rpc", "application/jsonrequest")

PIECE = 16 << 10
"""Bytes that are sent at once. A shorter response is sent whole, with its length."""

GZIP_BYTES = 300_000
"""What a compressor holds until its response ends."""


class RpcServer:
    """Handles HTTP requests by a method table; `label` names the server in the metrics."""

    def __init__(
        self,
        node: NodeView | Supernode,
        status: StatusSource | SupernodeStatus,
        meter: Meter,
        methods: Sequence[Method],
        label: str,
    ) -> None:
        self._node, self._status, self._meter, self._label = node, status, meter, label
        self.access = Access(node.config.vhosts, node.config.cors_domains, node.config.jwt_secret)
        self._methods: dict[str, Method] = {method.name: method for method in methods}

    async def handle(self, request: web.BaseRequest, exchange: Exchange) -> web.StreamResponse:
        """Answer a request."""
        response = await self._route(request, exchange)
        if not response.prepared:
            self._add_headers(request, response)
        return response

    def _add_headers(self, request: web.BaseRequest, response: web.StreamResponse) -> None:
        """Add what every response has, before it is sent."""
        response.headers["Server"] = "rollup-node"
        if self.access.cors_domains:
            response.headers.setdefault("Vary", "Origin")
        origin = request.headers.get("Origin")
        if origin is not None and self.access.accepts_origin(origin):
            allowed = ANY if ANY in self.access.cors_domains else origin
            response.headers["Access-Control-Allow-Origin"] = allowed
        if _accepts_gzip(request) and (not isinstance(response, web.Response) or response.body):
            response.enable_compression(web.ContentCoding.gzip)

    async def _route(self, request: web.BaseRequest, exchange: Exchange) -> web.StreamResponse:
        path = request.path
        if not self.access.accepts_host(request.headers.get("Host")):
            return web.Response(status=403, text=INVALID_HOST)
        method = request.headers.get("Access-Control-Request-Method")
        if request.method == "OPTIONS" and "Origin" in request.headers and method is not None:
            return self._preflight(request, method)
        if path in ("/healthz", "/healthz/"):
            return _json({"version": self._node.config.version})
        if path in ("/readyz", "/readyz/"):
            return self._readyz(request.query.getall("lag", []))
        if path in ("/status.json", "/status.json/"):
            return web.Response(body=self._status.json() + b"\n", content_type="application/json")
        if path != "/":
            return web.Response(status=404, text=NOT_FOUND)
        if request.method == "GET" and not request.can_read_body and not request.query_string:
            return web.Response()
        return await self._rpc(request, exchange)

    def _preflight(self, request: web.BaseRequest, method: str) -> web.Response:
        """Return the response to a CORS preflight request; without its headers the browser refuses [RPC5]."""
        response = web.Response(status=204)
        response.headers["Vary"] = "Origin, Access-Control-Request-Method, Access-Control-Request-Headers"
        if method in ("POST", "GET") and self.access.accepts_origin(request.headers["Origin"]):
            response.headers["Access-Control-Allow-Methods"] = method
            response.headers["Access-Control-Max-Age"] = "600"
            if headers := request.headers.get("Access-Control-Request-Headers"):
                response.headers["Access-Control-Allow-Headers"] = headers
        return response

    def _readyz(self, lag: list[str]) -> web.Response:
        """Return the response to `/readyz`; `lag` are the values of the query [RPC2, RPC93]."""
        try:
            seconds = read_lag(lag)
        except ValueError as error:
            return web.Response(status=400, text=f"{error}\n")
        reasons, warnings = self._status.readiness(seconds)
        body: dict[str, object] = {"ready": not reasons}
        if reasons:
            body["reasons"] = reasons
        if warnings:
            body["warnings"] = warnings
        return _json(body, 503 if reasons else 200)

    async def _rpc(self, request: web.BaseRequest, exchange: Exchange) -> web.StreamResponse:
        rejection = _rejection(request)
        if rejection is not None:
            return rejection
        if not self.access.accepts_origin(request.headers.get("Origin")):
            return web.Response(status=403, text=INVALID_ORIGIN)
        try:
            data = await exchange.read_body(MAX_BODY)
        except RequestTooLargeError:
            return _too_large(f">{MAX_BODY}")
        except MALFORMED:
            return web.Response(status=400, text="malformed body\n")
        tracing.called_by(request.headers.get("traceparent"))
        if len(data) > LONG_BODY:
            await exchange.turn()
        exchange.hold(jsonrpc.count_values(data) * jsonrpc.VALUE_BYTES)
        try:
            body = jsonrpc.parse_body(data)
        except JsonRpcError as error:
            return _json(jsonrpc.error_response(None, error))
        del data
        return await self._respond(request, exchange, body)

    async def _respond(self, request: web.BaseRequest, exchange: Exchange, body: ParsedBody) -> web.StreamResponse:
        """Return the responses in the order of the requests, all of them within CALL_SECONDS."""
        admin_error = self.access.admin_error(request.headers.get("Authorization", ""), time.time())
        deadline = exchange.begun + CALL_SECONDS
        sent = BatchResponse(request, exchange, partial(self._add_headers, request), is_batch=body.is_batch)
        turn_ends = time.monotonic() + TURN_SECONDS
        for item in body.items:
            if time.monotonic() > turn_ends:
                await exchange.turn()
                turn_ends = time.monotonic() + TURN_SECONDS
            if not isinstance(item, JsonRpcRequest):
                await sent.add(orjson.dumps(item))
                continue
            self._count_size(item.method, "rpc_server_params_size_total", len(orjson.dumps(item.params)))
            response = await self.call(item, deadline, sent.size, admin_error)
            # A notification is run all the same.
            if not item.is_notification:
                encoded = orjson.dumps(response)
                self._count_size(item.method, "rpc_server_results_size_total", len(encoded))
                await sent.add(encoded)
        return await sent.finish()

    async def call(
        self, request: JsonRpcRequest, deadline: float, size: int, admin_error: str | None = None
    ) -> Response:
        """Return the response to a call; `size` is that of the batch's responses so far.

        `admin_error` is why the admin API is not for this client."""
        start = time.monotonic()
        try:
            if size > jsonrpc.MAX_BATCH_RESPONSE:
                raise JsonRpcError(RESPONSE_TOO_LARGE, "response too large")
            if admin_error is not None and request.method.startswith(GUARDED):
                text = f"unauthorized: {admin_error}; it needs a JWT signed with rpc.jwt-secret"
                raise JsonRpcError(SERVER_ERROR, text)
            if start >= deadline:
                # A timeout of 0 would still run the method until it first waits.
                raise TimeoutError
            async with asyncio.timeout(deadline - start):
                result = await self._run(request)
            self._count(request.method, start, "<nil>")
            return jsonrpc.success_response(request.id, result)
        except JsonRpcError as error:
            self._count(request.method, start, f"rpc_{error.code}")
            return jsonrpc.error_response(request.id, error)
        except TimeoutError:
            self._count(request.method, start, f"rpc_{TIMEOUT}")
            return jsonrpc.error_response(request.id, JsonRpcError(TIMEOUT, "request timed out"))

    async def _run(self, request: JsonRpcRequest) -> Any:
        method = self._methods.get(request.method)
        if method is None:
            raise jsonrpc.method_not_found(request.method)
        params = parse_params(request.params, method.parsers)
        try:
            return await method.run(self._node, *params)
        except (JsonRpcError, TimeoutError):
            raise
        except Exception as bug:
            log.crash("method handler crashed", bug, method=method.name)
            raise JsonRpcError(INTERNAL_ERROR, "method handler crashed") from None

    def _count(self, method: str, start: float, error: str) -> None:
        name = self._known(method)
        trace = tracing.add_call(f"rpc {name}", start, error=error)
        self._meter.count("rpc_server_requests_total", rpc=self._label, method=name)
        seconds = time.monotonic() - start
        self._meter.observe("rpc_server_request_duration_seconds", seconds, trace, rpc=self._label, method=name)
        self._meter.count("rpc_server_responses_total", rpc=self._label, method=name, error=error)

    def _count_size(self, method: str, metric: str, size: int) -> None:
        self._meter.count(metric, size, rpc=self._label, method=self._known(method))

    def _known(self, method: str) -> str:
        """Return the label of a method: clients may send any name."""
        return method if method in self._methods else "<unknown>"


def _rejection(request: web.BaseRequest) -> web.Response | None:
    """Return the response to a request whose HTTP method or headers are not accepted [RPC6]."""
    if request.method in ("PUT", "DELETE"):
        return web.Response(status=405, text="method not allowed\n")
    length = request.content_length
    if length is not None and length > MAX_BODY:
        return _too_large(f"{length}>{MAX_BODY}")
    if request.method == "OPTIONS":
        return web.Response()
    if request.content_type not in CONTENT_TYPES or "Content-Type" not in request.headers:
        return web.Response(status=415, text="invalid content type, only application/json is supported\n")
    return None


def _too_large(what: str) -> web.Response:
    return web.Response(status=413, text=f"content length too large ({what})\n")


def _accepts_gzip(request: web.BaseRequest) -> bool:
    return "gzip" in request.headers.get("Accept-Encoding", "")


def _json(value: Any, status: int = 200) -> web.Response:
    return web.Response(body=orjson.dumps(value) + b"\n", status=status, content_type="application/json")


class BatchResponse:
    """Encoded response objects of `size` bytes so far; `add_headers` completes a response before it is sent."""

    def __init__(
        self,
        request: web.BaseRequest,
        exchange: Exchange,
        add_headers: Callable[[web.StreamResponse], None],
        *,
        is_batch: bool,
    ) -> None:
        self._request, self._exchange, self._add_headers = request, exchange, add_headers
        self._is_batch = is_batch
        self._pieces: list[bytes] = []
        self._waiting = 0
        self._stream: web.StreamResponse | None = None
        self.size = 0

    async def add(self, encoded: bytes) -> None:
        """Add one response object; waits until the client has taken most of what came before."""
        if self._is_batch:
            self._pieces.append(b"," if self.size else b"[")
        self._pieces.append(encoded)
        self.size += len(encoded)
        self._waiting += len(encoded)
        if self._waiting > PIECE and self._is_batch:
            await self._flush()

    async def finish(self) -> web.StreamResponse:
        """Return the response; empty if nothing was added, which is what notifications are answered with."""
        if not self.size:
            return web.Response(content_type="application/json")
        self._pieces.append(b"]\n" if self._is_batch else b"\n")
        if self._stream is None:
            return web.Response(body=b"".join(self._pieces), content_type="application/json")
        await self._flush()
        return self._stream

    async def _flush(self) -> None:
        if self._stream is None:
            self._stream = web.StreamResponse(headers={"Content-Type": "application/json"})
            self._add_headers(self._stream)
            if self._stream.compression:
                self._exchange.hold(GZIP_BYTES)
            await self._stream.prepare(self._request)
        piece = b"".join(self._pieces)
        self._pieces.clear()
        self._waiting = 0
        self._exchange.hold(len(piece))
        await self._stream.write(piece)
        await self._request.writer.drain()
        self._exchange.hold(-len(piece))
