"""JSON-RPC 2.0 requests and responses as go-ethereum's server reads and writes them [RPC11 to RPC14]."""

from typing import Any

import orjson
import pytest

from rollup_node.stages.rpc.jsonrpc import (
    MAX_BATCH,
    MAX_VALUES,
    JsonRpcError,
    JsonRpcRequest,
    error_response,
    method_not_found,
    parse_body,
    success_response,
)


def call(**fields: Any) -> bytes:
    return orjson.dumps({"jsonrpc": "2.0", **fields})


def test_a_call_and_a_notification() -> None:
    body = parse_body(call(id=7, method="a_b", params=[1]))
    assert not body.is_batch and body.items == (JsonRpcRequest("a_b", [1], 7, is_notification=False),)
    assert parse_body(call(id=None, method="a")).items == (JsonRpcRequest("a", None, None, is_notification=False),)
    assert parse_body(call(method="a")).items == (JsonRpcRequest("a", None, None, is_notification=True),)


@pytest.mark.parametrize(
    "value",
    [
        *(5, None, {}, {"jsonrpc": "1.0", "id": 1, "method": "a"}, {"jsonrpc": "2.0", "id": 1}),
        *({"jsonrpc": "2.0", "id": {}, "method": "a"}, {"jsonrpc": "2.0", "id": 1, "method": 3}, {"method": ""}),
    ],
    ids=str,
)
def test_other_values_are_invalid_requests(value: Any) -> None:
    for body in (parse_body(orjson.dumps(value)), parse_body(orjson.dumps([value]))):
        (item,) = body.items
        assert isinstance(item, dict) and item["error"] == {"code": -32600, "message": "invalid request"}


def test_bodies_that_are_neither_request_nor_batch() -> None:
    malformed = (-32700, "parse error")
    for data, code, message in ((b"{", *malformed), (b"", *malformed), (b"[]", -32600, "empty batch")):
        with pytest.raises(JsonRpcError) as error:
            parse_body(data)
        assert (error.value.code, error.value.message) == (code, message)


def test_batches_are_limited() -> None:
    """[RPC7] Values before they are parsed."""
    for data in (b"[" + b"[]," * MAX_VALUES + b"1]", b'{"a":' * MAX_VALUES, b"[" * (MAX_VALUES + 1)):
        with pytest.raises(JsonRpcError) as error:
            parse_body(data)
        assert error.value.code == -32600 and str(MAX_VALUES) in error.value.message
    assert len(parse_body(b"[" + b",".join([call(id=7, method="a")] * MAX_BATCH) + b"]").items) == MAX_BATCH
    body = parse_body(b"[1," + b",".join([call(id=7, method="a")] * MAX_BATCH) + b"]")
    (item,) = body.items
    assert body.is_batch and isinstance(item, dict)
    text = f"batch too large: {MAX_BATCH + 1} requests, at most {MAX_BATCH}"
    assert (item["id"], item["error"]) == (7, {"code": -32600, "message": text})


def test_a_success_has_no_member_error_and_an_error_no_result() -> None:
    """Not even null [RPC97]."""
    results: tuple[Any, ...] = (None, [], {}, 0, False, "x")
    for result in results:
        assert success_response(1, result) == {"jsonrpc": "2.0", "id": 1, "result": result}
    error = {"code": 3, "message": "reverted", "data": "0x01"}
    response = {"jsonrpc": "2.0", "id": None, "error": error}
    assert error_response(None, JsonRpcError(3, "reverted", "0x01")) == response
    text = f"the method {'m' * 200} does not exist/is not available"
    assert error_response(1, method_not_found("m" * 1000))["error"] == {"code": -32601, "message": text}
