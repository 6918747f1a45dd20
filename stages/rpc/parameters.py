"""Methods and their positional parameters, with a parser per type and go-ethereum's error texts [RPC15, RPC22]."""

import binascii
import ipaddress
from base64 import b64decode
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from string import hexdigits
from typing import Any, NamedTuple

from rollup_node.stages.protocol.engine_json import envelope_from_json
from rollup_node.stages.protocol.errors import INVALID_PARAMS
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.types import BlockId, Hash, L1BlockRef
from rollup_node.stages.rpc.jsonrpc import JsonRpcError

Parser = Callable[[Any], Any]
"""Turns a JSON value into a parameter; raises ValueError with the text to answer."""

MAX_STRING = 1024
_UINT64, _HASH = "hexutil.Uint64", "common.Hash"


def parse_params(params: Any, parsers: Sequence[Parser]) -> list[Any]:
    """Return the parameters of a call, one for each parser; all are required. Raises JsonRpcError (INVALID_PARAMS)."""
    value = [] if params is None else params
    if not isinstance(value, list):
        raise JsonRpcError(INVALID_PARAMS, "non-array args")
    if len(value) > len(parsers):
        raise JsonRpcError(INVALID_PARAMS, f"too many arguments, want at most {len(parsers)}")
    values = []
    for index, parser in enumerate(parsers):
        # go-ethereum treats null like a missing argument.
        if index >= len(value) or value[index] is None:
            raise JsonRpcError(INVALID_PARAMS, f"missing value for required argument {index}")
        try:
            values.append(parser(value[index]))
        except ValueError as error:
            raise JsonRpcError(INVALID_PARAMS, f"invalid argument {index}: {error}") from None
    return values


def quantity(value: Any) -> int:
    """Return a hex quantity of up to 64 bits; no block tags, and an empty string is 0, as in go-ethereum."""
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
    return _sized(value, 32, _HASH)


def _sized(value: Any, size: int, go_type: str) -> bytes:
    digits = _hex_digits(value, go_type)
    if len(digits) % 2:
        raise ValueError(_unmarshal_error("hex string of odd length", go_type))
    if len(digits) != 2 * size:
        raise ValueError(f"hex string has length {len(digits)}, want {2 * size} for {go_type}")
    return bytes.fromhex(_checked_digits(digits, go_type))


def boolean(value: Any) -> bool:
    """Return true or false."""
    if not isinstance(value, bool):
        raise ValueError(_unmarshal_error(_json_type(value), "bool"))
    return value


def string(value: Any) -> str:
    """Return a string of at most MAX_STRING characters."""
    if not isinstance(value, str):
        raise ValueError(_unmarshal_error(_json_type(value), "string"))
    if len(value) > MAX_STRING:
        raise ValueError(f"a string of {len(value)} letters, at most {MAX_STRING}")
    return value


def ip_address(value: Any) -> str:
    """Return an IP address, in its canonical form."""
    text = string(value)
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        raise ValueError(f"invalid IP address: {text[:100]}") from None


def subnet(value: Any) -> str:
    """Return a network such as 10.0.0.0/8 from Go's net.IPNet object: `IP`, and `Mask` in base64 [RPC76]."""
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


class PayloadInfo(NamedTuple):
    """The `id` of a build, and the timestamp of its block [RPC61]."""

    id: bytes
    timestamp: int


class SignedPayload(NamedTuple):
    """A block with the 65 bytes of its signature [RPC64]."""

    payload: ExecutionPayload
    signature: bytes


def block_id(value: Any) -> BlockId:
    """Return a BlockID object; a member that is missing is zero, as in Go [RPC21]."""
    result = _object(value, "eth.BlockID")
    text = result.get("hash")
    return BlockId(number(result.get("number")), bytes(32) if text is None else block_hash(text))


def block_seal(value: Any) -> BlockId:
    """Return a block seal; its timestamp is not used [IOP10]."""
    return block_id(_object(value, "types.BlockSeal"))


def block_reference(value: Any) -> L1BlockRef:
    """Return a reference to a block of any chain [IOP14]."""
    result = _object(value, "eth.BlockRef")
    parent, block = result.get("parentHash"), block_id(result)
    parent_hash = bytes(32) if parent is None else block_hash(parent)
    return L1BlockRef(block.hash, block.number, parent_hash, number(result.get("timestamp")))


def number(value: Any) -> int:
    """Return a plain number of 64 bits; null is 0."""
    if value is None:
        return 0
    if type(value) is not int or not 0 <= value < 1 << 64:
        raise ValueError(_unmarshal_error(_json_type(value), "uint64"))
    return value


def payload_info(value: Any) -> PayloadInfo:
    """Return an object with the `id` of a build and the plain number `timestamp` [RPC61]."""
    result = _object(value, "eth.PayloadInfo")
    text = result.get("id")
    return PayloadInfo(
        bytes(8) if text is None else _sized(text, 8, "engine.PayloadID"), number(result.get("timestamp"))
    )


def signed_envelope(value: Any) -> SignedPayload:
    """Return an envelope with its signature [RPC64]."""
    result = _object(value, "signer.SignedExecutionPayloadEnvelope")
    text = result.get("signature")
    signature = bytes(65) if text is None else _sized(text, 65, "eth.Bytes65")
    return SignedPayload(envelope_from_json(result.get("envelope")), signature)


def _object(value: Any, go_type: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(_unmarshal_error(_json_type(value), go_type))
    return value


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


@dataclass(frozen=True)
class Method:
    """A row of a method table: `run` makes a JSON value of view and parameters, or raises JsonRpcError."""

    name: str
    run: Callable[..., Awaitable[Any]]
    parsers: tuple[Parser, ...] = ()

    @property
    def namespace(self) -> str:
        """The part of the name before the underscore."""
        return self.name.split("_")[0]
