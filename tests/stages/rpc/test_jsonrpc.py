"""JSON-RPC 2.0 requests and responses as go-ethereum's server reads and writes them [RPC11 to RPC14]."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.rpc.jsonrpc import (
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
    "found",
    [
        *(5, None, {}, {"jsonrpc": "1.0", "id": 1, "method": "a"}, {"jsonrpc": "2.0", "id": 1}),
        *({"jsonrpc": "2.0", "id": {}, "method": "a"}, {"jsonrpc": "2.0", "id": 1, "method": 3}, {"method": ""}),
    ],
    ids=str,
)
def test_other_values_are_invalid_requests(found: Any) -> None:
    for body in (parse_body(orjson.dumps(found)), parse_body(orjson.dumps([found]))):
        (item,) = body.items
        assert isinstance(item, dict) and item["error"] == {"code": -32600, "message": "invalid request"}


def test_bodies_that_are_neither_request_nor_batch() -> None:
    for data, code, message in (
        (b"{", -32700, "parse error"),
        (b"", -32700, "parse error"),
        (b"[]", -32600, "empty batch"),
    ):
        with pytest.raises(JsonRpcError) as error:
            parse_body(data)
        assert (error.value.code, error.value.message) == (code, message)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        body = parse_body(data)
    except JsonRpcError as error:
        assert error.code in (-32700, -32600)
    else:
        assert body.items


def test_responses() -> None:
    assert success_response(7, [1]) == {"jsonrpc": "2.0", "id": 7, "result": [1]}
    assert error_response(None, JsonRpcError(3, "reverted", "0x01")) == {
        "jsonrpc": "2.0",
        "id": None,
        "error": {"code": 3, "message": "reverted", "data": "0x01"},
    }
    assert "data" not in error_response(1, JsonRpcError(-32000, "x"))["error"]


def test_a_long_method_name_is_cut_off() -> None:
    error = method_not_found("m" * 1000)
    assert (error.code, error.message) == (-32601, f"the method {'m' * 200} does not exist/is not available")
