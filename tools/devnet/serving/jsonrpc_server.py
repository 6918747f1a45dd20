"""A JSON-RPC 2.0 server over HTTP POST for a method table, with batches and an optional JWT check."""

import base64
import hmac
import inspect
import time
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any

import orjson
from aiohttp import web

from rollup_node.stages.io.log import get_logger
from rollup_node.stages.protocol.hex_encoding import HexError

log = get_logger("jsonrpc")

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
SERVER_ERROR = -32000

MAX_BODY = 128 << 20
MAX_BATCH = 1000
_TOKEN_AGE = 60

Method = Callable[..., Any]


class RpcError(Exception):
    """A method raises this to respond with an error object."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


class JsonRpc:
    """Dispatches request bodies. A method is a plain or async function of positional parameters whose result orjson can
    encode. It raises RpcError, or HexError for a malformed parameter."""

    def __init__(self, methods: Mapping[str, Method]) -> None:
        self._methods = {name: (method, inspect.signature(method)) for name, method in methods.items()}

    @property
    def names(self) -> list[str]:
        """All method names, sorted."""
        return sorted(self._methods)

    async def respond(self, body: bytes) -> bytes:
        """The response to one request or a batch; empty for notifications alone."""
        try:
            request = orjson.loads(body)
        except orjson.JSONDecodeError:
            return orjson.dumps(_failure(None, PARSE_ERROR, "parse error: the body is not JSON"))
        if not isinstance(request, list):
            response = await self._one(request)
            return b"" if response is None else orjson.dumps(response)
        if not request:
            return orjson.dumps(_failure(None, INVALID_REQUEST, "empty batch"))
        if len(request) > MAX_BATCH:
            return orjson.dumps(_failure(None, INVALID_REQUEST, f"batch of more than {MAX_BATCH} requests"))
        responses = [response for part in request if (response := await self._one(part)) is not None]
        return orjson.dumps(responses) if responses else b""

    async def _one(self, request: Any) -> dict[str, Any] | None:
        if not isinstance(request, dict) or not isinstance(request.get("method"), str):
            return _failure(None, INVALID_REQUEST, "invalid request")
        identity = request.get("id")
        try:
            response = {"jsonrpc": "2.0", "id": identity, "result": await self._call(request)}
        except RpcError as error:
            response = _failure(identity, error.code, error.message, error.data)
        except HexError as error:
            response = _failure(identity, INVALID_PARAMS, f"invalid argument: {error}")
        except Exception as error:  # a bug in a method must not close the connection of other requests
            log.crash("method failed", error, method=request["method"])
            response = _failure(identity, INTERNAL_ERROR, f"internal error: {type(error).__name__}: {error}")
        return response if "id" in request else None

    async def _call(self, request: dict[str, Any]) -> Any:
        name = request["method"]
        if name not in self._methods:
            raise RpcError(METHOD_NOT_FOUND, f"the method {name} does not exist/is not available")
        method, signature = self._methods[name]
        parameters = request.get("params") or []
        if not isinstance(parameters, list):
            raise RpcError(INVALID_PARAMS, "parameters must be a list")
        try:
            signature.bind(*parameters)
        except TypeError as error:
            raise RpcError(INVALID_PARAMS, f"{name}: {error}") from None
        result = method(*parameters)
        return await result if inspect.isawaitable(result) else result


def application(rpc: JsonRpc, jwt_secret: bytes | None = None) -> web.Application:
    """A web application that serves `rpc` at `/`, with a secret only for requests with a fresh HS256 token.

    Routes may be added before it starts."""

    async def handle(request: web.Request) -> web.Response:
        if jwt_secret is not None and (reason := token_error(request.headers.get("Authorization", ""), jwt_secret)):
            return web.Response(status=401, text=reason)
        return web.Response(body=await rpc.respond(await request.read()), content_type="application/json")

    served = web.Application(client_max_size=MAX_BODY)
    served.router.add_post("/", handle)
    return served


class Listener:
    """An application that listens on a port. For port 0 a free one is chosen, and `url` and `port` have it once
    started."""

    def __init__(self, app: web.Application, port: int, host: str = "127.0.0.1") -> None:
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        self.host = host
        self.port = port

    @property
    def url(self) -> str:
        """The HTTP URL."""
        return f"http://{self.host}:{self.port}"

    async def start(self) -> None:
        """Binds the port. Raises OSError where it is in use."""
        await self._runner.setup()
        await web.TCPSite(self._runner, self.host, self.port).start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Closes the port and all connections."""
        await self._runner.cleanup()


def token_error(authorization: str, secret: bytes) -> str | None:
    """Why an Authorization header is rejected, or None for an HS256 token of the secret issued within 60 seconds."""
    if not authorization.startswith("Bearer "):
        return "missing token"
    try:
        signed, _, signature = authorization[7:].strip().rpartition(".")
        head, payload = (orjson.loads(_unpadded(part)) for part in signed.split("."))
        given = _unpadded(signature)
    except ValueError:
        return "malformed token"
    if not isinstance(head, dict) or head.get("alg") != "HS256":
        return "token is not signed with HS256"
    if not hmac.compare_digest(hmac.new(secret, signed.encode(), sha256).digest(), given):
        return "signature is invalid"
    issued = payload.get("iat") if isinstance(payload, dict) else None
    if not isinstance(issued, int | float) or abs(issued - time.time()) > _TOKEN_AGE:
        return "token is stale or has no iat"
    return None


def _unpadded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _failure(identity: Any, code: int, message: str, data: Any = None) -> dict[str, Any]:
    error: dict[str, Any] = {"code": code, "message": message}
    if data is not None:
        error["data"] = data
    return {"jsonrpc": "2.0", "id": identity, "error": error}
