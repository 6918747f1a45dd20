"""A JSON-RPC 2.0 server over HTTP POST or IPC for a method table, with batches and an optional JWT check."""

import asyncio
import inspect
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Self

import orjson
from aiohttp import web

from rollup_node.stages.io.http.connection import PIECE, BodyTooLargeError
from rollup_node.stages.io.http.ipc import JsonStream
from rollup_node.stages.io.log.logger import Logger
from rollup_node.stages.io.system import stop_accepting
from rollup_node.stages.io.task import cancel_all
from rollup_node.stages.protocol.errors import INTERNAL_ERROR, INVALID_PARAMS
from rollup_node.stages.protocol.foreign_json import MalformedJsonError
from rollup_node.stages.protocol.hex_encoding import HexError
from rollup_node.stages.protocol.jwt_token import token_error
from rollup_node.stages.rpc.jsonrpc import (
    JsonRpcError,
    JsonRpcRequest,
    Response,
    error_response,
    method_not_found,
    parse_body,
    success_response,
)

log = Logger("jsonrpc")

MAX_BODY = 128 << 20
STOP_SECONDS = 0.1
"""How long a server waits for what it answers when it stops."""

Method = Callable[..., Any]


class JsonRpc:
    """Dispatches request bodies.

    A method is a plain or async function of positional parameters whose result orjson can encode. It raises
    JsonRpcError, or HexError for a malformed parameter."""

    def __init__(self, methods: Mapping[str, Method]) -> None:
        self._methods = {name: (method, inspect.signature(method)) for name, method in methods.items()}

    @property
    def names(self) -> list[str]:
        """All method names, sorted."""
        return sorted(self._methods)

    async def respond(self, body: bytes) -> bytes:
        """Return the response to one request or a batch; empty for notifications alone."""
        try:
            parsed = parse_body(body)
        except JsonRpcError as error:
            return orjson.dumps(error_response(None, error))
        responses = [response for item in parsed.items if (response := await self._respond(item)) is not None]
        if not responses:
            return b""
        return orjson.dumps(responses if parsed.is_batch else responses[0])

    async def _respond(self, request: JsonRpcRequest | Response) -> Response | None:
        """Return the response to a request; None for a notification."""
        if not isinstance(request, JsonRpcRequest):
            return request
        try:
            response = success_response(request.id, await self._call(request))
        except JsonRpcError as error:
            response = error_response(request.id, error)
        except HexError as error:
            response = error_response(request.id, JsonRpcError(INVALID_PARAMS, f"invalid argument: {error}"))
        except Exception as error:  # a bug in a method must not close the connection of other requests
            log.crash("method failed", error, method=request.method)
            text = f"internal error: {type(error).__name__}: {error}"
            response = error_response(request.id, JsonRpcError(INTERNAL_ERROR, text))
        return None if request.is_notification else response

    async def _call(self, request: JsonRpcRequest) -> Any:
        name = request.method
        if name not in self._methods:
            raise method_not_found(name)
        method, signature = self._methods[name]
        params = request.params or []
        if not isinstance(params, list):
            raise JsonRpcError(INVALID_PARAMS, "parameters must be a list")
        try:
            signature.bind(*params)
        except TypeError as error:
            raise JsonRpcError(INVALID_PARAMS, f"{name}: {error}") from None
        result = method(*params)
        return await result if inspect.isawaitable(result) else result


def application(
    rpc: JsonRpc, jwt_secret: bytes | None = None, others: Mapping[str, JsonRpc] | None = None
) -> web.Application:
    """Return a web application that serves `rpc` at `/` and `others` at their paths.

    With a secret only for requests with a fresh HS256 token.

    Routes may be added before it starts."""

    def handler(served: JsonRpc) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handle(request: web.Request) -> web.Response:
            if jwt_secret is not None:
                reason = token_error(request.headers.get("Authorization", ""), jwt_secret, time.time())
                if reason is not None:
                    return web.Response(status=401, text=reason)
            return web.Response(body=await served.respond(await request.read()), content_type="application/json")

        return handle

    app = web.Application(client_max_size=MAX_BODY)
    for path, served in {"/": rpc, **(others or {})}.items():
        app.router.add_post(path, handler(served))
    return app


class IpcListener:
    """Serves `rpc` on a Unix socket at a path, as geth and reth serve IPC: without a token, JSON values in a row."""

    def __init__(self, rpc: JsonRpc, path: Path) -> None:
        self._rpc, self._path = rpc, path
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Bind the path, also where an ended server has left its socket. Raises OSError."""
        self._path.unlink(missing_ok=True)
        self._server = await asyncio.start_unix_server(self._serve, self._path)

    async def stop(self) -> None:
        """Close all connections, and remove the socket."""
        if self._server is not None:
            self._server.close()
            self._path.unlink(missing_ok=True)
        await cancel_all(self._tasks)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        stream = JsonStream(MAX_BODY)
        try:
            while data := await reader.read(PIECE):
                for request in stream.feed(data):
                    writer.write(await self._rpc.respond(request) + b"\n")
                    await writer.drain()
        except (OSError, MalformedJsonError, BodyTooLargeError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()


class Listener:
    """An application that listens on a port, also as a context manager.

    For port 0 a free one is chosen, and `url` and `port` have it once started."""

    def __init__(
        self, app: web.Application, port: int, host: str = "127.0.0.1", context: ssl.SSLContext | None = None
    ) -> None:
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=STOP_SECONDS)
        self._context = context
        self.host = host
        self.port = port
        self._server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        """The HTTP URL."""
        return f"http{'s' if self._context else ''}://{self.host}:{self.port}"

    async def start(self) -> None:
        """Bind the port. Raises OSError where it is in use."""
        await self._runner.setup()
        assert self._runner.server is not None
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._runner.server, self.host, self.port, ssl=self._context)
        self.port = self._server.sockets[0].getsockname()[1]

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.stop()

    async def stop(self) -> None:
        """Close the port and all connections."""
        if self._server is not None:
            await stop_accepting(self._server)
        await self._runner.cleanup()
