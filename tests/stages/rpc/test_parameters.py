"""Parameters of JSON-RPC calls, with go-ethereum's error texts [RPC15, RPC22]."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.protocol.types import BlockId, L1BlockRef
from rollup_node.stages.rpc.jsonrpc import JsonRpcError
from rollup_node.stages.rpc.parameters import (
    MAX_STRING,
    Parser,
    block_hash,
    block_id,
    block_reference,
    block_seal,
    boolean,
    ip_address,
    number,
    parse_params,
    payload_info,
    quantity,
    signed_envelope,
    string,
    subnet,
)


@given(st.integers(0, (1 << 64) - 1))
def test_quantities(value: int) -> None:
    assert parse_params([hex(value)], (quantity,)) == [value]
    assert parse_params([""], (quantity,)) == [0], "as go-ethereum reads it"


@pytest.mark.parametrize(
    ("parser", "value", "expected"),
    [
        (block_hash, "0x" + "0A" * 32, b"\x0a" * 32),
        (boolean, True, True),
        (block_id, {}, BlockId(0, bytes(32))),
        (block_reference, {}, L1BlockRef(bytes(32), 0, bytes(32), 0)),
        (string, "abc", "abc"),
        (ip_address, "10.0.0.1", "10.0.0.1"),
        (ip_address, "2001:DB8::1", "2001:db8::1"),
        (subnet, {"IP": "10.1.2.3", "Mask": "/wAAAA=="}, "10.0.0.0/8"),
        (subnet, {"IP": "10.1.2.3", "Mask": "/////w=="}, "10.1.2.3/32"),
        (subnet, {"IP": "0.0.0.0", "Mask": "AAAAAA=="}, "0.0.0.0/0"),
        (subnet, {"IP": "2001:db8::1", "Mask": "/////wAAAAAAAAAAAAAAAA=="}, "2001:db8::/32"),
    ],
)
def test_parsers(parser: Parser, value: Any, expected: Any) -> None:
    assert parse_params([value], (parser,)) == [expected]


@pytest.mark.parametrize(
    ("parser", "params", "message"),
    [
        (quantity, [], "missing value for required argument 0"),
        (quantity, None, "missing value for required argument 0"),
        (quantity, [None], "missing value for required argument 0"),
        (quantity, ["0x1", 2], "too many arguments, want at most 1"),
        (quantity, {"a": 1}, "non-array args"),
        (quantity, [5], "invalid argument 0: json: cannot unmarshal non-string into Go value of type hexutil.Uint64"),
        (quantity, ["latest"], "cannot unmarshal hex string without 0x prefix into Go value of type hexutil.Uint64"),
        (
            quantity,
            ["0x01"],
            "cannot unmarshal hex number with leading zero digits into Go value of type hexutil.Uint64",
        ),
        (quantity, ["0x"], 'cannot unmarshal hex string "0x" into Go value of type hexutil.Uint64'),
        (quantity, ["0xg"], "cannot unmarshal invalid hex string into Go value of type hexutil.Uint64"),
        (quantity, ["0x1" + 16 * "0"], "cannot unmarshal hex number > 64 bits into Go value of type hexutil.Uint64"),
        (block_hash, ["0x00"], "invalid argument 0: hex string has length 2, want 64 for common.Hash"),
        (block_hash, [""], "hex string has length 0, want 64 for common.Hash"),
        (block_hash, ["0x000"], "cannot unmarshal hex string of odd length into Go value of type common.Hash"),
        (block_hash, ["00" * 32], "cannot unmarshal hex string without 0x prefix into Go value of type common.Hash"),
        (block_hash, ["0x" + "zz" * 32], "cannot unmarshal invalid hex string into Go value of type common.Hash"),
        (block_hash, [7], "cannot unmarshal non-string into Go value of type common.Hash"),
        (boolean, ["true"], "cannot unmarshal string into Go value of type bool"),
        (string, [5], "cannot unmarshal number into Go value of type string"),
        (string, ["x" * (MAX_STRING + 976)], "a string of 2000 letters, at most 1024"),
        (ip_address, ["localhost"], "invalid IP address: localhost"),
        (ip_address, [["10.0.0.1"]], "cannot unmarshal array into Go value of type string"),
        (subnet, ["10.0.0.0/8"], "cannot unmarshal string into Go value of type net.IPNet"),
        (subnet, [{"IP": "10.0.0.0"}], "cannot unmarshal null into Go value of type string"),
        (subnet, [{"IP": "10.0.0.0", "Mask": "///"}], "the Mask is not base64"),
        (subnet, [{"IP": "10.0.0.0", "Mask": "/wD/AA=="}], "the Mask of 10.0.0.0 is not that of a network"),
        (subnet, [{"IP": "10.0.0.0", "Mask": "/wA="}], "the Mask of 10.0.0.0 is not that of a network"),
        (number, ["0x46"], "cannot unmarshal string into Go value of type uint64"),
        (block_id, [{"number": -1}], "cannot unmarshal number into Go value of type uint64"),
        (block_reference, [[]], "cannot unmarshal array into Go value of type eth.BlockRef"),
        (block_seal, [7], "cannot unmarshal number into Go value of type types.BlockSeal"),
        (payload_info, [3], "cannot unmarshal number into Go value of type eth.PayloadInfo"),
        (payload_info, [{"id": "0x01"}], "hex string has length 2, want 16 for engine.PayloadID"),
        (payload_info, [{"timestamp": "0x1"}], "cannot unmarshal string into Go value of type uint64"),
        (signed_envelope, [{"signature": "0x00"}], "hex string has length 2, want 130 for eth.Bytes65"),
        (signed_envelope, [{}], "expected an object as payload envelope, got None"),
    ],
)
def test_params_that_are_refused(parser: Parser, params: Any, message: str) -> None:
    with pytest.raises(JsonRpcError) as error:
        parse_params(params, (parser,))
    assert error.value.code == -32602 and error.value.message.endswith(message)
