"""Execution payloads and payload attributes as JSON of the Engine API [ENG8, ENG9]."""

from binascii import hexlify
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

import msgspec

from rollup_node.stages.protocol.hex_encoding import (
    HexError,
    address_from_hex,
    from_hex,
    from_hex_sized,
    from_quantity,
    hash_from_hex,
    short_repr,
    to_hex,
)
from rollup_node.stages.protocol.payloads import ExecutionPayload, PayloadAttributes
from rollup_node.stages.protocol.types import Hash

T = TypeVar("T")


class PayloadError(ValueError):
    """The JSON value is malformed; the text names the field."""


def attributes_to_json(attributes: PayloadAttributes) -> dict[str, Any]:
    """Return the PayloadAttributes object, without a false `noTxPool` [ATT17], `minBaseFee` a plain number [ATT20]."""
    return msgspec.json.decode(encode_attributes(attributes), type=dict[str, Any])


def encode_attributes(attributes: PayloadAttributes) -> bytes:
    """Return the JSON text of `attributes_to_json`."""
    result: dict[str, Any] = {
        "timestamp": hex(attributes.timestamp),
        "prevRandao": to_hex(attributes.prev_randao),
        "suggestedFeeRecipient": to_hex(attributes.fee_recipient),
    }
    if attributes.withdrawals:
        result["withdrawals"] = []
    if attributes.parent_beacon_root is not None:
        result["parentBeaconBlockRoot"] = to_hex(attributes.parent_beacon_root)
    result["transactions"] = _hex_list(attributes.transactions)
    if attributes.no_tx_pool:
        result["noTxPool"] = True
    result["gasLimit"] = hex(attributes.gas_limit)
    if attributes.eip1559_params is not None:
        result["eip1559Params"] = to_hex(attributes.eip1559_params)
    if attributes.min_base_fee is not None:
        result["minBaseFee"] = attributes.min_base_fee
    return msgspec.json.encode(result)


def _hex_list(transactions: Sequence[bytes]) -> msgspec.Raw:
    """Return the JSON text of a list of hex strings, without an encoder's search for characters to escape."""
    return msgspec.Raw(b'["0x' + b'","0x'.join(map(hexlify, transactions)) + b'"]' if transactions else b"[]")


def attributes_from_json(value: Any) -> PayloadAttributes:
    """Return the inverse of `attributes_to_json`. Raises PayloadError."""
    source = _object(value, "payload attributes")
    minimum = source.get("minBaseFee")
    # A plain number, not a quantity; true is no number [A10].
    if minimum is not None and (type(minimum) is not int or not 0 <= minimum < 1 << 64):
        raise PayloadError(f"minBaseFee: expected a number of 64 bits, got {short_repr(minimum)}")
    return PayloadAttributes(
        timestamp=_read(source, "timestamp", from_quantity),
        prev_randao=_read(source, "prevRandao", hash_from_hex),
        fee_recipient=_read(source, "suggestedFeeRecipient", address_from_hex),
        withdrawals=_read(source, "withdrawals", _withdrawals),
        parent_beacon_root=_optional(source, "parentBeaconBlockRoot", hash_from_hex),
        transactions=_optional(source, "transactions", _transactions) or (),
        no_tx_pool=source.get("noTxPool") is True,
        gas_limit=_read(source, "gasLimit", from_quantity),
        eip1559_params=_optional(source, "eip1559Params", _bytes_8),
        min_base_fee=minimum,
    )


def payload_to_json(payload: ExecutionPayload) -> dict[str, Any]:
    """Return the ExecutionPayload object, which does not include the parent beacon block root."""
    return msgspec.json.decode(encode_payload(payload), type=dict[str, Any])


def encode_payload(payload: ExecutionPayload) -> bytes:
    """Return the JSON text of `payload_to_json`."""
    # Without the last attribute, the parent beacon block root.
    values = zip(PAYLOAD_FIELDS, msgspec.structs.astuple(payload), strict=False)
    return msgspec.json.encode(
        {field.json_name: field.write(value) for field, value in values if value is not None and value is not False}
    )


def payload_from_json(value: Any, parent_beacon_root: Hash | None = None) -> ExecutionPayload:
    """Return the payload of an ExecutionPayload object. Raises PayloadError, also for withdrawals."""
    source = _object(value, "execution payload")
    values: list[Any] = [
        _optional(source, field.json_name, field.read)
        if field.is_optional
        else _read(source, field.json_name, field.read)
        for field in PAYLOAD_FIELDS
    ]
    values.append(parent_beacon_root)
    return ExecutionPayload(*values)


def envelope_from_json(value: Any) -> ExecutionPayload:
    """Return the payload in any version's engine_getPayload response, or an envelope [RPC23]. Raises PayloadError."""
    envelope = _object(value, "payload envelope")
    root = _optional(envelope, "parentBeaconBlockRoot", hash_from_hex)
    return payload_from_json(envelope.get("executionPayload"), root)


def envelope_to_json(payload: ExecutionPayload) -> dict[str, Any]:
    """Return the envelope that holds a payload and, if present, its parent beacon block root."""
    result: dict[str, Any] = {"executionPayload": payload_to_json(payload)}
    if payload.parent_beacon_root is not None:
        result["parentBeaconBlockRoot"] = to_hex(payload.parent_beacon_root)
    return result


def _object(value: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise PayloadError(f"expected an object as {what}, got {short_repr(value)}")
    return value


def _read(source: Mapping[str, Any], name: str, convert: Callable[[Any], T]) -> T:
    try:
        return convert(source.get(name))
    except HexError as error:
        raise PayloadError(f"{name}: {error}") from None


def _optional(source: Mapping[str, Any], name: str, convert: Callable[[Any], T]) -> T | None:
    return None if source.get(name) is None else _read(source, name, convert)


def _transactions(value: Any) -> tuple[bytes, ...]:
    if not isinstance(value, list):
        raise HexError(f"expected a list, got {short_repr(value)}")
    return tuple([from_hex(transaction) for transaction in value])


_bytes_8, _bloom = partial(from_hex_sized, size=8), partial(from_hex_sized, size=256)


def _withdrawals(value: Any) -> bool:
    """Whether there is a list of withdrawals, which must be empty."""
    if value is None or value == []:
        return value is not None
    raise HexError("expected an empty list")


class PayloadField(NamedTuple):
    """A member of the ExecutionPayload object: its name, what reads it, and what writes a value that is there."""

    json_name: str
    read: Callable[[Any], Any]
    write: Callable[[Any], Any]
    is_optional: bool = False


PAYLOAD_FIELDS: tuple[PayloadField, ...] = (
    PayloadField("parentHash", hash_from_hex, to_hex),
    PayloadField("feeRecipient", address_from_hex, to_hex),
    PayloadField("stateRoot", hash_from_hex, to_hex),
    PayloadField("receiptsRoot", hash_from_hex, to_hex),
    PayloadField("logsBloom", _bloom, to_hex),
    PayloadField("prevRandao", hash_from_hex, to_hex),
    PayloadField("blockNumber", from_quantity, hex),
    PayloadField("gasLimit", from_quantity, hex),
    PayloadField("gasUsed", from_quantity, hex),
    PayloadField("timestamp", from_quantity, hex),
    PayloadField("extraData", from_hex, to_hex),
    PayloadField("baseFeePerGas", partial(from_quantity, bits=256), hex),
    PayloadField("blockHash", hash_from_hex, to_hex),
    PayloadField("transactions", _transactions, _hex_list),
    PayloadField("withdrawals", _withdrawals, lambda _: []),
    PayloadField("blobGasUsed", from_quantity, hex, is_optional=True),
    PayloadField("excessBlobGas", from_quantity, hex, is_optional=True),
    PayloadField("withdrawalsRoot", hash_from_hex, to_hex, is_optional=True),
)
"""In the order of ExecutionPayload's attributes."""
