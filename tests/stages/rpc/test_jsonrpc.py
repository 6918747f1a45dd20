"""JSON-RPC bodies and arguments as go-ethereum's server judges them (node-behaviour 1.1, 1.2)."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.rpc.jsonrpc import (
    CallError,
    Request,
    arguments,
    block_hash,
    boolean,
    ip_address,
    parse_body,
    quantity,
    subnet,
    text,
)


def call(**fields: Any) -> bytes:
    return orjson.dumps({"jsonrpc": "2.0", **fields})


def test_a_call_and_a_notification() -> None:
    body = parse_body(call(id=7, method="a_b", params=[1]))
    assert not body.batch and body.items == (Request("a_b", [1], 7, True),)
    assert parse_body(call(id=None, method="a")).items == (Request("a", None, None, True),)
    assert parse_body(call(method="a")).items == (Request("a", None, None, False),)


@pytest.mark.parametrize(
    "found",
    [
        *(5, None, {}, {"jsonrpc": "1.0", "id": 1, "method": "a"}, {"jsonrpc": "2.0", "id": 1}),
        *({"jsonrpc": "2.0", "id": {}, "method": "a"}, {"jsonrpc": "2.0", "id": 1, "method": 3}, {"method": ""}),
    ],
    ids=str,
)
def test_what_is_no_request(found: Any) -> None:
    for body in (parse_body(orjson.dumps(found)), parse_body(orjson.dumps([found]))):
        (item,) = body.items
        assert isinstance(item, dict) and item["error"] == {"code": -32600, "message": "invalid request"}


def test_bodies_that_are_none() -> None:
    for data, code, told in (
        (b"{", -32700, "parse error"),
        (b"", -32700, "parse error"),
        (b"[]", -32600, "empty batch"),
    ):
        with pytest.raises(CallError) as failure:
            parse_body(data)
        assert (failure.value.code, failure.value.message) == (code, told)


@given(st.binary(max_size=200))
def test_any_bytes_are_judged(data: bytes) -> None:
    try:
        body = parse_body(data)
    except CallError as failure:
        assert failure.code in (-32700, -32600)
    else:
        assert body.items


@pytest.mark.parametrize(
    ("params", "told"),
    [
        ([], "missing value for required argument 0"),
        (None, "missing value for required argument 0"),
        ([None], "missing value for required argument 0"),
        (["0x1", 2], "too many arguments, want at most 1"),
        ({"a": 1}, "non-array args"),
        ([5], "invalid argument 0: json: cannot unmarshal non-string into Go value of type hexutil.Uint64"),
        (["latest"], "json: cannot unmarshal hex string without 0x prefix into Go value of type hexutil.Uint64"),
        (["0x01"], "json: cannot unmarshal hex number with leading zero digits into Go value of type hexutil.Uint64"),
        (["0x"], 'json: cannot unmarshal hex string "0x" into Go value of type hexutil.Uint64'),
        (["0xg"], "json: cannot unmarshal invalid hex string into Go value of type hexutil.Uint64"),
        (["0x1" + 16 * "0"], "json: cannot unmarshal hex number > 64 bits into Go value of type hexutil.Uint64"),
    ],
    ids=str,
)
def test_arguments_that_are_refused(params: Any, told: str) -> None:
    with pytest.raises(CallError) as failure:
        arguments(params, (quantity,))
    assert failure.value.code == -32602 and failure.value.message.endswith(told)


@given(st.integers(0, (1 << 64) - 1))
def test_quantities(number: int) -> None:
    assert arguments([hex(number)], (quantity,)) == [number]
    assert arguments([""], (quantity,)) == [0], "as go-ethereum reads it"


def test_hashes() -> None:
    assert block_hash("0x" + "0A" * 32) == b"\x0a" * 32
    for wrong, told in (
        ("0x00", "hex string has length 2, want 64 for common.Hash"),
        ("", "hex string has length 0, want 64 for common.Hash"),
        ("0x000", "json: cannot unmarshal hex string of odd length into Go value of type common.Hash"),
        ("00" * 32, "json: cannot unmarshal hex string without 0x prefix into Go value of type common.Hash"),
        ("0x" + "zz" * 32, "json: cannot unmarshal invalid hex string into Go value of type common.Hash"),
        (None, "json: cannot unmarshal non-string into Go value of type common.Hash"),
    ):
        with pytest.raises(ValueError, match=f"^{told}$"):
            block_hash(wrong)


@pytest.mark.parametrize(
    ("parser", "given", "expected"),
    [
        (boolean, True, True),
        (text, "abc", "abc"),
        (ip_address, "10.0.0.1", "10.0.0.1"),
        (ip_address, "2001:DB8::1", "2001:db8::1"),
        (subnet, {"IP": "10.1.2.3", "Mask": "/wAAAA=="}, "10.0.0.0/8"),
        (subnet, {"IP": "10.1.2.3", "Mask": "/////w=="}, "10.1.2.3/32"),
        (subnet, {"IP": "0.0.0.0", "Mask": "AAAAAA=="}, "0.0.0.0/0"),
        (subnet, {"IP": "2001:db8::1", "Mask": "/////wAAAAAAAAAAAAAAAA=="}, "2001:db8::/32"),
    ],
)
def test_arguments_about_peers(parser: Any, given: Any, expected: Any) -> None:
    assert arguments([given], (parser,)) == [expected]


@pytest.mark.parametrize(
    ("parser", "given", "told"),
    [
        (boolean, "true", "cannot unmarshal string into Go value of type bool"),
        (text, 5, "cannot unmarshal number into Go value of type string"),
        (text, "x" * 2000, "a string of 2000 letters, at most 1024"),
        (ip_address, "localhost", "invalid IP address: localhost"),
        (ip_address, ["10.0.0.1"], "cannot unmarshal array into Go value of type string"),
        (subnet, "10.0.0.0/8", "cannot unmarshal string into Go value of type net.IPNet"),
        (subnet, {"IP": "10.0.0.0"}, "cannot unmarshal null into Go value of type string"),
        (subnet, {"IP": "10.0.0.0", "Mask": "///"}, "the Mask is not base64"),
        (subnet, {"IP": "10.0.0.0", "Mask": "/wD/AA=="}, "the Mask of 10.0.0.0 is not that of a network"),
        (subnet, {"IP": "10.0.0.0", "Mask": "/wA="}, "the Mask of 10.0.0.0 is not that of a network"),
    ],
)
def test_arguments_about_peers_that_are_refused(parser: Any, given: Any, told: str) -> None:
    with pytest.raises(CallError) as failure:
        arguments([given], (parser,))
    assert failure.value.code == -32602 and failure.value.message.endswith(told)
