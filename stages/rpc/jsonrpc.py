"""JSON-RPC 2.0 as go-ethereum's server speaks it: requests out of a body, arguments out of requests, and error texts
(node-behaviour 1.1, 1.2)."""

import binascii
import ipaddress
from base64 import b64decode
from collections.abc import Callable, Sequence
from string import hexdigits
from typing import Any

import msgspec
import orjson

from rollup_node.stages.protocol.engine_json import envelope_from_json
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.types import Hash

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
UNKNOWN_METHOD = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
TIMED_OUT = -32002
TOO_LARGE = -32003
ORDINARY_ERROR = -32000

MAX_RESPONSES = 25_000_000
"""Bytes of answers to one batch; what comes after is refused."""


class CallError(Exception):
    """An error object to answer with."""

    def __init__(self, message: str, code: int = ORDINARY_ERROR) -> None:
        super().__init__(message)
        self.message = message
        self.code = code


class Request(msgspec.Struct, frozen=True):
    """A call; where no `id` was given it gets no answer."""

    method: str
    params: Any
    id: Any
    id_given: bool


class Body(msgspec.Struct, frozen=True):
    """What one HTTP body asks for; an error in the place of a message that is no request."""

    items: tuple[Request | dict[str, Any], ...]
    batch: bool


def parse_body(data: bytes) -> Body:
    """The requests of a body; CallError if it as a whole is none."""
    try:
        found = orjson.loads(data)
    except orjson.JSONDecodeError:
        raise CallError("parse error", PARSE_ERROR) from None
    if not isinstance(found, list):
        return Body((_request(found),), False)
    if not found:
        raise CallError("empty batch", INVALID_REQUEST)
    return Body(tuple(_request(each) for each in found), True)


def _request(found: Any) -> Request | dict[str, Any]:
    if isinstance(found, dict) and found.get("jsonrpc") == "2.0":
        method, number = found.get("method"), found.get("id")
        if isinstance(method, str) and method and not isinstance(number, dict | list):
            return Request(method, found.get("params"), number, "id" in found)
    number = found.get("id") if isinstance(found, dict) else None
    return error(None if isinstance(number, dict | list) else number, CallError("invalid request", INVALID_REQUEST))


def result(number: Any, value: Any) -> dict[str, Any]:
    """A successful answer."""
    return {"jsonrpc": "2.0", "id": number, "result": value}


def error(number: Any, failure: CallError) -> dict[str, Any]:
    """An answer with an error object."""
    return {"jsonrpc": "2.0", "id": number, "error": {"code": failure.code, "message": failure.message}}


def unknown_method(method: str) -> CallError:
    """The answer to a method that is not there, or not switched on."""
    return CallError(f"the method {method[:200]} does not exist/is not available", UNKNOWN_METHOD)


# --- arguments -----------------------------------------------------------------------------------------------------

Parser = Callable[[Any], Any]
_UINT64, _HASH = "hexutil.Uint64", "common.Hash"
_LONGEST_TEXT = 1024


def arguments(params: Any, parsers: Sequence[Parser]) -> list[Any]:
    """The positional arguments; CallError with go-ethereum's text where one is missing or malformed."""
    given = [] if params is None else params
    if not isinstance(given, list):
        raise CallError("non-array args", INVALID_PARAMS)
    if len(given) > len(parsers):
        raise CallError(f"too many arguments, want at most {len(parsers)}", INVALID_PARAMS)
    values = []
    for index, parser in enumerate(parsers):
        if index >= len(given) or given[index] is None:
            raise CallError(f"missing value for required argument {index}", INVALID_PARAMS)
        try:
            values.append(parser(given[index]))
        except ValueError as problem:
            raise CallError(f"invalid argument {index}: {problem}", INVALID_PARAMS) from None
    return values


def quantity(value: Any) -> int:
    """A hex quantity of at most 64 bits without leading zeros; labels are not taken, an empty text is zero."""
    digits = _prefixed(value, _UINT64)
    if value == "":
        return 0
    if not digits:
        raise ValueError(_unusable('hex string "0x"', _UINT64))
    if digits[0] == "0" and digits != "0":
        raise ValueError(_unusable("hex number with leading zero digits", _UINT64))
    if len(digits) > 16:
        raise ValueError(_unusable("hex number > 64 bits", _UINT64))
    return int(_checked(digits, _UINT64), 16)


def block_hash(value: Any) -> Hash:
    """32 bytes of hex."""
    digits = _prefixed(value, _HASH)
    if len(digits) % 2:
        raise ValueError(_unusable("hex string of odd length", _HASH))
    if len(digits) != 64:
        raise ValueError(f"hex string has length {len(digits)}, want 64 for {_HASH}")
    return bytes.fromhex(_checked(digits, _HASH))


def boolean(value: Any) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise ValueError(_unusable(_kind(value), "bool"))
    return value


def text(value: Any) -> str:
    """A string of no great length."""
    if not isinstance(value, str):
        raise ValueError(_unusable(_kind(value), "string"))
    if len(value) > _LONGEST_TEXT:
        raise ValueError(f"a string of {len(value)} letters, at most {_LONGEST_TEXT}")
    return value


def ip_address(value: Any) -> str:
    """An IP address in its usual form."""
    given = text(value)
    try:
        return str(ipaddress.ip_address(given))
    except ValueError:
        raise ValueError(f"invalid IP address: {given[:100]}") from None


def subnet(value: Any) -> str:
    """A network such as 10.0.0.0/8, from an object of its IP and its mask in base64 (node-behaviour 1.8)."""
    if not isinstance(value, dict):
        raise ValueError(_unusable(_kind(value), "net.IPNet"))
    address = ip_address(value.get("IP"))
    try:
        mask = b64decode(text(value.get("Mask")), validate=True)
    except binascii.Error:
        raise ValueError("the Mask is not base64") from None
    bits = "".join(f"{byte:08b}" for byte in mask)
    ones = bits.count("1")
    if len(bits) != (128 if ":" in address else 32) or "1" in bits[ones:]:
        raise ValueError(f"the Mask of {address} is not that of a network")
    return str(ipaddress.ip_network(f"{address}/{ones}", strict=False))


def envelope(value: Any) -> ExecutionPayload:
    """A payload with the beacon root beside it."""
    return envelope_from_json(value)


def _kind(value: Any) -> str:
    kinds = ((bool, "bool"), (str, "string"), (int | float, "number"), (list, "array"), (dict, "object"))
    return next((name for kind, name in kinds if isinstance(value, kind)), "null")


def _prefixed(value: Any, kind: str) -> str:
    if not isinstance(value, str):
        raise ValueError(_unusable("non-string", kind))
    if value and value[:2] not in ("0x", "0X"):
        raise ValueError(_unusable("hex string without 0x prefix", kind))
    return value[2:]


def _checked(digits: str, kind: str) -> str:
    if not set(digits) <= set(hexdigits):
        raise ValueError(_unusable("invalid hex string", kind))
    return digits


def _unusable(what: str, kind: str) -> str:
    return f"json: cannot unmarshal {what} into Go value of type {kind}"
