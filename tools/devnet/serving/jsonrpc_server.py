"""A JSON-RPC 2.0 server over HTTP POST for a method table, with batches and an optional JWT check."""

import inspect
import time
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from rollup_node.stages.io.log import get_logger
from rollup_node.stages.protocol.hex_encoding import HexError
from rollup_node.stages.protocol.jsonrpc_codes import INTERNAL_ERROR, INVALID_PARAMS
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
from rollup_node.tools.devnet.serving.http_server import Answer, HttpRequest, HttpResponse

log = get_logger("jsonrpc")

Method = Callable[..., Any]


class JsonRpc:
    """Dispatches request bodies. A method is a plain or async function of positional parameters whose result orjson can
    encode. It raises JsonRpcError, or HexError for a malformed parameter."""

    def __init__(self, methods: Mapping[str, Method]) -> None:
        self._methods = {name: (method, inspect.signature(method)) for name, method in methods.items()}

    @property
    def names(self) -> list[str]:
        """All method names, sorted."""
        return sorted(self._methods)

    async def respond(self, body: bytes) -> bytes:
        """The response to one request or a batch; empty for notifications alone."""
        try:
            parsed = parse_body(body)
        except JsonRpcError as error:
            return orjson.dumps(error_response(None, error))
        responses = [response for item in parsed.items if (response := await self._respond(item)) is not None]
        if not responses:
            return b""
        return orjson.dumps(responses if parsed.is_batch else responses[0])

    async def _respond(self, request: JsonRpcRequest | Response) -> Response | None:
        """The response to a request; None for a notification."""
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


def rpc_answer(rpc: JsonRpc, jwt_secret: bytes | None = None, others: Mapping[str, JsonRpc] | None = None) -> Answer:
    """Answers to POST requests by `rpc` at `/` and by `others` at their paths, with a secret only to those with a fresh
    HS256 token."""
    served = {"/": rpc, **(others or {})}

    async def answer(request: HttpRequest) -> HttpResponse:
        found = served.get(request.path)
        if found is None:
            return HttpResponse(status=404)
        if request.method != "POST":
            return HttpResponse(status=405)
        if jwt_secret is not None:
            reason = token_error(request.headers.get("authorization", ""), jwt_secret, time.time())
            if reason is not None:
                return HttpResponse(reason.encode(), 401, "text/plain")
        return HttpResponse(await found.respond(request.body))

    return answer
