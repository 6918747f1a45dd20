"""Requests, responses and errors of JSON-RPC 2.0 as go-ethereum's server implements it [RPC7, RPC11 to RPC18]."""

from typing import Any

import msgspec
import orjson

from rollup_node.stages.protocol.errors import INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR

MAX_BATCH = 1000
"""Requests in one batch [RPC7]."""

MAX_BATCH_RESPONSE = 25_000_000
"""Bytes of the responses to one batch; the calls after that are refused [RPC7]."""

MAX_VALUES = 50_000
"""JSON values in one body: a value may take a hundred times its text in memory, so bytes alone are no bound [RPC7]."""

VALUE_BYTES = 150
"""What a value takes in memory, on average of the worst bodies."""

Response = dict[str, Any]


class JsonRpcError(Exception):
    """What a method raises to respond with an error object."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code, self.message, self.data = code, message, data


class JsonRpcRequest(msgspec.Struct, frozen=True):
    """A call; a notification has no id and gets no response."""

    method: str
    params: Any
    id: Any
    is_notification: bool


class ParsedBody(msgspec.Struct, frozen=True):
    """The requests of one HTTP body; what is not a request object has its error response in its place."""

    items: tuple[JsonRpcRequest | Response, ...]
    is_batch: bool


def parse_body(data: bytes) -> ParsedBody:
    """Read one request or a batch.

    A batch of more than MAX_BATCH is an error response in the place of its items [RPC7]. Raises JsonRpcError if the
    body is not JSON, an empty batch, or has more than MAX_VALUES."""
    if count_values(data) > MAX_VALUES:
        raise JsonRpcError(INVALID_REQUEST, f"request too large: more than {MAX_VALUES} values; send smaller batches")
    try:
        result = orjson.loads(data)
    except orjson.JSONDecodeError:
        raise JsonRpcError(PARSE_ERROR, "parse error") from None
    if not isinstance(result, list):
        return ParsedBody((_parse_request(result),), False)
    if not result:
        raise JsonRpcError(INVALID_REQUEST, "empty batch")
    if len(result) > MAX_BATCH:
        too_large = JsonRpcError(INVALID_REQUEST, f"batch too large: {len(result)} requests, at most {MAX_BATCH}")
        return ParsedBody((error_response(_first_id(result), too_large),), True)
    return ParsedBody(tuple(_parse_request(item) for item in result), True)


def count_values(data: bytes) -> int:
    """Return an upper bound of the JSON values and keys in a body: each but the first follows one of these."""
    return 1 + data.count(b",") + data.count(b":") + data.count(b"[") + data.count(b"{")


def _first_id(items: list[Any]) -> Any:
    """Return the id of the first call of a batch, which go-ethereum answers for all of it."""
    ids = (item["id"] for item in items if isinstance(item, dict) and "id" in item)
    first = next(ids, None)
    return None if isinstance(first, dict | list) else first


def _parse_request(value: Any) -> JsonRpcRequest | Response:
    if isinstance(value, dict) and value.get("jsonrpc") == "2.0":
        method, request_id = value.get("method"), value.get("id")
        if isinstance(method, str) and method and not isinstance(request_id, dict | list):
            return JsonRpcRequest(method, value.get("params"), request_id, "id" not in value)
    request_id = value.get("id") if isinstance(value, dict) else None
    if isinstance(request_id, dict | list):
        request_id = None
    return error_response(request_id, JsonRpcError(INVALID_REQUEST, "invalid request"))


def success_response(request_id: Any, result: Any) -> Response:
    return {"jsonrpc": "2.0", "id": request_id, "result": result}


def error_response(request_id: Any, error: JsonRpcError) -> Response:
    """Return the response object with an error; its `data` is left out if there is none."""
    result: dict[str, Any] = {"code": error.code, "message": error.message}
    if error.data is not None:
        result["data"] = error.data
    return {"jsonrpc": "2.0", "id": request_id, "error": result}


def method_not_found(method: str) -> JsonRpcError:
    """Return the error for a method that does not exist or whose namespace is switched off [RPC11]."""
    return JsonRpcError(METHOD_NOT_FOUND, f"the method {method[:200]} does not exist/is not available")
