"""The JSON-RPC server with op-node's and go-ethereum's manners over HTTP (node-behaviour 1.1), and `/healthz`,
`/readyz`."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import orjson
from aiohttp import web

from rollup_node.stages.io.log import get_logger
from rollup_node.stages.io.metrics import Meter
from rollup_node.stages.protocol.errors import CriticalError
from rollup_node.stages.rpc.jsonrpc import (
    INTERNAL_ERROR,
    MAX_RESPONSES,
    TIMED_OUT,
    TOO_LARGE,
    Body,
    CallError,
    Request,
    arguments,
    error,
    parse_body,
    result,
    unknown_method,
)
from rollup_node.stages.rpc.process.methods import Method, Node, methods_of
from rollup_node.stages.rpc.readiness import reasons

log = get_logger("rpc")

MAX_BODY = 5 << 20
READ_SECONDS = 30.0
CALL_SECONDS = 29.9
IDLE_SECONDS = 120.0
STOP_SECONDS = 1.5
CONTENT_TYPES = ("application/json", "application/json-rpc", "application/jsonrequest")

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class HttpServer:
    """An aiohttp server with one handler for every path; `port` is the one it got once it is started."""

    def __init__(self, handler: Handler, what: str, addr: str, port: int) -> None:
        self._what, self._addr, self.port = what, addr, port
        server = web.Server(handler, keepalive_timeout=IDLE_SECONDS, access_log=None)
        self._runner = web.ServerRunner(server, shutdown_timeout=STOP_SECONDS)

    async def start(self) -> None:
        """Binds; a port that cannot be had is critical."""
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, self._addr, self.port).start()
        except OSError as problem:
            raise CriticalError(
                f"cannot listen on {self._addr}:{self.port} ({problem.strerror or problem});"
                f" choose another with {self._what}.addr and {self._what}.port"
            ) from None
        self.port = self._runner.addresses[0][1]
        log.info(f"{self._what} server is listening", addr=self._addr, port=self.port)

    async def close(self) -> None:
        """Ends running requests within STOP_SECONDS."""
        await self._runner.cleanup()


class RpcServer:
    """Answers HTTP requests out of the method table."""

    def __init__(self, node: Node, meter: Meter) -> None:
        self._node, self._meter = node, meter
        self._methods: dict[str, Method] = {method.name: method for method in methods_of(node.config)}

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
        asked = request.headers.get("Access-Control-Request-Method")
        if request.method == "OPTIONS" and "Origin" in request.headers and asked is not None:
            return _preflight(asked, request.headers.get("Access-Control-Request-Headers", ""))
        path = request.path
        if path in ("/healthz", "/healthz/"):
            return _json({"version": self._node.config.version})
        if path in ("/readyz", "/readyz/"):
            return self._ready()
        if path != "/":
            return web.Response(status=404, text="404 page not found\n")
        if request.method == "GET" and not request.can_read_body and not request.query_string:
            return web.Response()
        return await self._rpc(request)

    def _ready(self) -> web.Response:
        node, now = self._node, time.monotonic()
        heard = {name: subscriber.last_seen for name, subscriber in node.subscribers.items()}
        ages = {name: None if at is None else now - at for name, at in heard.items()}
        found = reasons(node.health, ages, node.l1, node.engine)
        return _json({"ready": False, "reasons": found}, 503) if found else _json({"ready": True})

    # --- JSON-RPC --------------------------------------------------------------------------------------------------

    async def _rpc(self, request: web.BaseRequest) -> web.Response:
        refusal = _refusal(request)
        if refusal is not None:
            return refusal
        try:
            async with asyncio.timeout(READ_SECONDS):
                data = await _read(request)
        except TimeoutError:
            return web.Response(status=408, text="the request took too long to arrive\n")
        if data is None:
            return _too_large(f">{MAX_BODY}")
        try:
            body = parse_body(data)
        except CallError as failure:
            return _json(error(None, failure))
        answers = await self._answer(body)
        if not answers:
            return web.Response(content_type="application/json")
        joined = b",".join(answers)
        text = b"[" + joined + b"]" if body.batch else joined
        return web.Response(body=text + b"\n", content_type="application/json")

    async def _answer(self, body: Body) -> list[bytes]:
        """The encoded answers in the order of the requests, all within CALL_SECONDS."""
        deadline = time.monotonic() + CALL_SECONDS
        answers: list[bytes] = []
        size = 0
        for item in body.items:
            if isinstance(item, Request):
                answer = await self._call(item, deadline, size)
                if not item.id_given:
                    continue
            else:
                answer = item
            answers.append(_encode(answer))
            size += len(answers[-1])
        return answers

    async def _call(self, request: Request, deadline: float, size: int) -> dict[str, Any]:
        """One call; whatever goes wrong in it is an answer."""
        began = time.monotonic()
        number = request.id if request.id_given else None
        try:
            if size > MAX_RESPONSES:
                raise CallError("response too large", TOO_LARGE)
            async with asyncio.timeout(max(0.0, deadline - began)):
                found = await self._run(request)
            self._count(request.method, began, "<nil>")
            return result(number, found)
        except CallError as failure:
            self._count(request.method, began, f"rpc_{failure.code}")
            return error(number, failure)
        except TimeoutError:
            self._count(request.method, began, f"rpc_{TIMED_OUT}")
            return error(number, CallError("request timed out", TIMED_OUT))

    async def _run(self, request: Request) -> Any:
        method = self._methods.get(request.method)
        if method is None:
            raise unknown_method(request.method)
        values = arguments(request.params, method.parameters)
        try:
            return await method.run(self._node, *values)
        except (CallError, TimeoutError):
            raise
        except Exception as bug:
            log.crash("a method handler crashed", bug, method=method.name)
            raise CallError("method handler crashed", INTERNAL_ERROR) from None

    def _count(self, method: str, began: float, outcome: str) -> None:
        name = method if method in self._methods else "<unknown>"
        self._meter.count("rpc_server_requests_total", rpc="main", method=name)
        seconds = time.monotonic() - began
        self._meter.observe("rpc_server_request_duration_seconds", seconds, rpc="main", method=name)
        self._meter.count("rpc_server_responses_total", rpc="main", method=name, error=outcome)


def _refusal(request: web.BaseRequest) -> web.Response | None:
    """What the method or the headers make impossible."""
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
    """The body, None if it is too long."""
    parts: list[bytes] = []
    size = 0
    async for part in request.content.iter_any():
        size += len(part)
        if size > MAX_BODY:
            return None
        parts.append(part)
    return b"".join(parts)


def _preflight(method: str, headers: str) -> web.Response:
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
    return web.Response(body=_encode(value) + b"\n", status=status, content_type="application/json")


def _encode(value: Any) -> bytes:
    return orjson.dumps(value)
