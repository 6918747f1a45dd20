"""The HTTP server of JSON-RPC, `/healthz` and `/readyz`, with the behaviour of op-node's and go-ethereum's servers
[RPC1 to RPC11]."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import orjson
from aiohttp import web

from rollup_node.stages.io.log import get_logger
from rollup_node.stages.io.metrics import Meter
from rollup_node.stages.protocol.errors import CriticalError
from rollup_node.stages.protocol.jsonrpc_codes import INTERNAL_ERROR, RESPONSE_TOO_LARGE, TIMEOUT
from rollup_node.stages.rpc.jsonrpc import (
    MAX_BATCH_RESPONSE,
    JsonRpcError,
    JsonRpcRequest,
    ParsedBody,
    Response,
    error_response,
    method_not_found,
    parse_body,
    success_response,
)
from rollup_node.stages.rpc.parameters import parse_params
from rollup_node.stages.rpc.process.methods import Method, NodeView, enabled_methods
from rollup_node.stages.rpc.readiness import not_ready_reasons

log = get_logger("rpc")

MAX_BODY = 5 << 20
READ_SECONDS = 30.0
CALL_SECONDS = 29.9
IDLE_SECONDS = 120.0
SHUTDOWN_SECONDS = 1.5
CONTENT_TYPES = ("application/json", "application/json-rpc", "application/jsonrequest")

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class HttpServer:
    """An aiohttp server with one handler for every path. `port` may be 0 for any free one; after `start` it is the
    bound one. `options` is the prefix of the options that configure it, such as `rpc`."""

    def __init__(self, handler: Handler, options: str, addr: str, port: int) -> None:
        self._options, self._addr, self.port = options, addr, port
        server = web.Server(handler, keepalive_timeout=IDLE_SECONDS, access_log=None)
        self._runner = web.ServerRunner(server, shutdown_timeout=SHUTDOWN_SECONDS)

    async def start(self) -> None:
        """Binds the port. Raises CriticalError where that fails."""
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, self._addr, self.port).start()
        except OSError as error:
            raise CriticalError(
                f"cannot listen on {self._addr}:{self.port} ({error.strerror or error});"
                f" choose another with {self._options}.addr and {self._options}.port"
            ) from None
        self.port = self._runner.addresses[0][1]
        log.info(f"{self._options} server is listening", addr=self._addr, port=self.port)

    async def close(self) -> None:
        """Stops to listen, and ends running requests within SHUTDOWN_SECONDS."""
        await self._runner.cleanup()


class RpcServer:
    """Handles HTTP requests by the method table."""

    def __init__(self, node: NodeView, meter: Meter) -> None:
        self._node, self._meter = node, meter
        self._methods: dict[str, Method] = {method.name: method for method in enabled_methods(node.config)}

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """One HTTP request."""
        response = await self._route(request)
        response.headers["Server"] = "rollup-node"
        if "Origin" in request.headers and request.method != "OPTIONS":
            response.headers["Access-Control-Allow-Origin"] = "*"
            response.headers["Vary"] = "Origin"
        if response.body and "gzip" in request.headers.get("Accept-Encoding", ""):
            response.enable_compression(web.ContentCoding.gzip)
        return response

    async def _route(self, request: web.BaseRequest) -> web.Response:
        method = request.headers.get("Access-Control-Request-Method")
        if request.method == "OPTIONS" and "Origin" in request.headers and method is not None:
            return _preflight(method, request.headers.get("Access-Control-Request-Headers", ""))
        path = request.path
        if path in ("/healthz", "/healthz/"):
            return _json({"version": self._node.config.version})
        if path in ("/readyz", "/readyz/"):
            return self._readyz()
        if path != "/":
            return web.Response(status=404, text="404 page not found\n")
        if request.method == "GET" and not request.can_read_body and not request.query_string:
            return web.Response()
        return await self._rpc(request)

    def _readyz(self) -> web.Response:
        reasons = not_ready_reasons(self._node.health, self._node.ages(), self._node.l1, self._node.engine)
        return _json({"ready": False, "reasons": reasons}, 503) if reasons else _json({"ready": True})

    # --- JSON-RPC --------------------------------------------------------------------------------------------------

    async def _rpc(self, request: web.BaseRequest) -> web.Response:
        rejection = _rejection(request)
        if rejection is not None:
            return rejection
        try:
            async with asyncio.timeout(READ_SECONDS):
                data = await _read(request)
        except TimeoutError:
            return web.Response(status=408, text="the request took too long to arrive\n")
        if data is None:
            return _too_large(f">{MAX_BODY}")
        try:
            body = parse_body(data)
        except JsonRpcError as error:
            return _json(error_response(None, error))
        responses = await self._respond(body)
        if not responses:
            return web.Response(content_type="application/json")
        joined = b",".join(responses)
        text = b"[" + joined + b"]" if body.is_batch else joined
        return web.Response(body=text + b"\n", content_type="application/json")

    async def _respond(self, body: ParsedBody) -> list[bytes]:
        """The encoded responses in the order of the requests, all of them within CALL_SECONDS."""
        deadline = time.monotonic() + CALL_SECONDS
        responses: list[bytes] = []
        size = 0
        for item in body.items:
            if isinstance(item, JsonRpcRequest):
                response = await self._call(item, deadline, size)
                # It is run all the same.
                if item.is_notification:
                    continue
            else:
                response = item
            responses.append(orjson.dumps(response))
            size += len(responses[-1])
        return responses

    async def _call(self, request: JsonRpcRequest, deadline: float, size: int) -> Response:
        """One call; `size` is that of the batch's responses so far. Every failure is a response."""
        start = time.monotonic()
        try:
            if size > MAX_BATCH_RESPONSE:
                raise JsonRpcError(RESPONSE_TOO_LARGE, "response too large")
            async with asyncio.timeout(max(0.0, deadline - start)):
                result = await self._run(request)
            self._count(request.method, start, "<nil>")
            return success_response(request.id, result)
        except JsonRpcError as error:
            self._count(request.method, start, f"rpc_{error.code}")
            return error_response(request.id, error)
        except TimeoutError:
            self._count(request.method, start, f"rpc_{TIMEOUT}")
            return error_response(request.id, JsonRpcError(TIMEOUT, "request timed out"))

    async def _run(self, request: JsonRpcRequest) -> Any:
        method = self._methods.get(request.method)
        if method is None:
            raise method_not_found(request.method)
        params = parse_params(request.params, method.parsers)
        try:
            return await method.run(self._node, *params)
        except (JsonRpcError, TimeoutError):
            raise
        except Exception as bug:
            log.crash("method handler crashed", bug, method=method.name)
            raise JsonRpcError(INTERNAL_ERROR, "method handler crashed") from None

    def _count(self, method: str, start: float, error: str) -> None:
        name = method if method in self._methods else "<unknown>"
        self._meter.count("rpc_server_requests_total", rpc="main", method=name)
        seconds = time.monotonic() - start
        self._meter.observe("rpc_server_request_duration_seconds", seconds, rpc="main", method=name)
        self._meter.count("rpc_server_responses_total", rpc="main", method=name, error=error)


def _rejection(request: web.BaseRequest) -> web.Response | None:
    """The response to a request whose HTTP method or headers are not accepted [RPC6]."""
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


async def _read(request: web.BaseRequest) -> bytes | None:
    """The body; None if it is longer than MAX_BODY, whatever its headers claim."""
    parts: list[bytes] = []
    size = 0
    # A chunked body has no Content-Length to check before.
    async for part in request.content.iter_any():
        size += len(part)
        if size > MAX_BODY:
            return None
        parts.append(part)
    return b"".join(parts)


def _preflight(method: str, headers: str) -> web.Response:
    """The response to a CORS preflight request [RPC5]."""
    response = web.Response(status=204)
    response.headers["Vary"] = "Origin, Access-Control-Request-Method, Access-Control-Request-Headers"
    if method in ("POST", "GET"):
        response.headers["Access-Control-Allow-Origin"] = "*"
        response.headers["Access-Control-Allow-Methods"] = method
        response.headers["Access-Control-Max-Age"] = "600"
        if headers:
            response.headers["Access-Control-Allow-Headers"] = headers
    return response


def _json(value: Any, status: int = 200) -> web.Response:
    return web.Response(body=orjson.dumps(value) + b"\n", status=status, content_type="application/json")
