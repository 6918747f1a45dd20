"""Positional parameters of JSON-RPC calls: one parser per type, with go-ethereum's error texts [RPC15, RPC22]."""

import binascii
import ipaddress
from base64 import b64decode
from collections.abc import Callable, Sequence
from string import hexdigits
from typing import Any

from rollup_node.stages.protocol.jsonrpc_codes import INVALID_PARAMS
from rollup_node.stages.protocol.types import Hash
from rollup_node.stages.rpc.jsonrpc import JsonRpcError

Parser = Callable[[Any], Any]
"""Turns a JSON value into a parameter; raises ValueError with the text to answer."""

MAX_STRING = 1024
_UINT64, _HASH = "hexutil.Uint64", "common.Hash"


def parse_params(params: Any, parsers: Sequence[Parser]) -> list[Any]:
    """The parameters of a call, one for each parser; all are required. Raises JsonRpcError (INVALID_PARAMS) where
    `params` is no list, has too many items, or one of them is missing or malformed."""
    given = [] if params is None else params
    if not isinstance(given, list):
        raise JsonRpcError(INVALID_PARAMS, "non-array args")
    if len(given) > len(parsers):
        raise JsonRpcError(INVALID_PARAMS, f"too many arguments, want at most {len(parsers)}")
    values = []
    for index, parser in enumerate(parsers):
        # go-ethereum treats null like a missing argument.
        if index >= len(given) or given[index] is None:
            raise JsonRpcError(INVALID_PARAMS, f"missing value for required argument {index}")
        try:
            values.append(parser(given[index]))
        except ValueError as error:
            raise JsonRpcError(INVALID_PARAMS, f"invalid argument {index}: {error}") from None
    return values


def quantity(value: Any) -> int:
    """A hex quantity of at most 64 bits without leading zeros. Block tags are refused; the empty string is 0, as in
    go-ethereum."""
    digits = _hex_digits(value, _UINT64)
    if value == "":
        return 0
    if not digits:
        raise ValueError(_unmarshal_error('hex string "0x"', _UINT64))
    if digits[0] == "0" and digits != "0":
        raise ValueError(_unmarshal_error("hex number with leading zero digits", _UINT64))
    if len(digits) > 16:
        raise ValueError(_unmarshal_error("hex number > 64 bits", _UINT64))
    return int(_checked_digits(digits, _UINT64), 16)


def block_hash(value: Any) -> Hash:
    """32 bytes of hex."""
    digits = _hex_digits(value, _HASH)
    if len(digits) % 2:
        raise ValueError(_unmarshal_error("hex string of odd length", _HASH))
    if len(digits) != 64:
        raise ValueError(f"hex string has length {len(digits)}, want 64 for {_HASH}")
    return bytes.fromhex(_checked_digits(digits, _HASH))


def boolean(value: Any) -> bool:
    """true or false."""
    if not isinstance(value, bool):
        raise ValueError(_unmarshal_error(_json_type(value), "bool"))
    return value


def string(value: Any) -> str:
    """A string of at most MAX_STRING characters."""
    if not isinstance(value, str):
        raise ValueError(_unmarshal_error(_json_type(value), "string"))
    if len(value) > MAX_STRING:
        raise ValueError(f"a string of {len(value)} letters, at most {MAX_STRING}")
    return value


def ip_address(value: Any) -> str:
    """An IP address, in its canonical form."""
    given = string(value)
    try:
        return str(ipaddress.ip_address(given))
    except ValueError:
        raise ValueError(f"invalid IP address: {given[:100]}") from None


def subnet(value: Any) -> str:
    """A network such as 10.0.0.0/8 from Go's net.IPNet object: `IP`, and `Mask` in base64 [RPC76]."""
    if not isinstance(value, dict):
        raise ValueError(_unmarshal_error(_json_type(value), "net.IPNet"))
    address = ip_address(value.get("IP"))
    try:
        mask = b64decode(string(value.get("Mask")), validate=True)
    except binascii.Error:
        raise ValueError("the Mask is not base64") from None
    bits = "".join(f"{byte:08b}" for byte in mask)
    ones = bits.count("1")
    if len(bits) != (128 if ":" in address else 32) or "1" in bits[ones:]:
        raise ValueError(f"the Mask of {address} is not that of a network")
    return str(ipaddress.ip_network(f"{address}/{ones}", strict=False))


def _json_type(value: Any) -> str:
    names = ((bool, "bool"), (str, "string"), (int | float, "number"), (list, "array"), (dict, "object"))
    return next((name for kind, name in names if isinstance(value, kind)), "null")


def _hex_digits(value: Any, go_type: str) -> str:
    if not isinstance(value, str):
        raise ValueError(_unmarshal_error("non-string", go_type))
    if value and value[:2] not in ("0x", "0X"):
        raise ValueError(_unmarshal_error("hex string without 0x prefix", go_type))
    return value[2:]


def _checked_digits(digits: str, go_type: str) -> str:
    if not set(digits) <= set(hexdigits):
        raise ValueError(_unmarshal_error("invalid hex string", go_type))
    return digits


def _unmarshal_error(what: str, go_type: str) -> str:
    return f"json: cannot unmarshal {what} into Go value of type {go_type}"
