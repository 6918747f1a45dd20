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
    return _attributes_object(attributes, _hex_list(attributes.transactions))


def encode_attributes(attributes: PayloadAttributes) -> bytes:
    """Return the JSON text of `attributes_to_json`."""
    return msgspec.json.encode(_attributes_object(attributes, _raw_hex_list(attributes.transactions)))


def _attributes_object(attributes: PayloadAttributes, transactions: Any) -> dict[str, Any]:
    result: dict[str, Any] = {
        "timestamp": hex(attributes.timestamp),
        "prevRandao": to_hex(attributes.prev_randao),
        "suggestedFeeRecipient": to_hex(attributes.fee_recipient),
    }
    if attributes.withdrawals:
        result["withdrawals"] = []
    if attributes.parent_beacon_root is not None:
        result["parentBeaconBlockRoot"] = to_hex(attributes.parent_beacon_root)
    result["transactions"] = transactions
    if attributes.no_tx_pool:
        result["noTxPool"] = True
    result["gasLimit"] = hex(attributes.gas_limit)
    if attributes.eip1559_params is not None:
        result["eip1559Params"] = to_hex(attributes.eip1559_params)
    if attributes.min_base_fee is not None:
        result["minBaseFee"] = attributes.min_base_fee
    return result


def _hex_list(transactions: Sequence[bytes]) -> list[str]:
    return ["0x" + transaction.hex() for transaction in transactions]


def _raw_hex_list(transactions: Sequence[bytes]) -> msgspec.Raw:
    """Return the JSON text of the same list, without an encoder's search for characters to escape."""
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
    return _payload_object(payload, _hex_list(payload.transactions))


def encode_payload(payload: ExecutionPayload) -> bytes:
    """Return the JSON text of `payload_to_json`."""
    return msgspec.json.encode(_payload_object(payload, _raw_hex_list(payload.transactions)))


def _payload_object(payload: ExecutionPayload, transactions: Any) -> dict[str, Any]:
    result: dict[str, Any] = {
        "parentHash": to_hex(payload.parent_hash),
        "feeRecipient": to_hex(payload.fee_recipient),
        "stateRoot": to_hex(payload.state_root),
        "receiptsRoot": to_hex(payload.receipts_root),
        "logsBloom": to_hex(payload.logs_bloom),
        "prevRandao": to_hex(payload.prev_randao),
        "blockNumber": hex(payload.block_number),
        "gasLimit": hex(payload.gas_limit),
        "gasUsed": hex(payload.gas_used),
        "timestamp": hex(payload.timestamp),
        "extraData": to_hex(payload.extra_data),
        "baseFeePerGas": hex(payload.base_fee),
        "blockHash": to_hex(payload.block_hash),
        "transactions": transactions,
    }
    if payload.withdrawals:
        result["withdrawals"] = []
    if payload.blob_gas_used is not None:
        result["blobGasUsed"] = hex(payload.blob_gas_used)
    if payload.excess_blob_gas is not None:
        result["excessBlobGas"] = hex(payload.excess_blob_gas)
    if payload.withdrawals_root is not None:
        result["withdrawalsRoot"] = to_hex(payload.withdrawals_root)
    return result


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
    """A member of the ExecutionPayload object: its name, and what reads it."""

    json_name: str
    read: Callable[[Any], Any]
    is_optional: bool = False


PAYLOAD_FIELDS: tuple[PayloadField, ...] = (
    PayloadField("parentHash", hash_from_hex),
    PayloadField("feeRecipient", address_from_hex),
    PayloadField("stateRoot", hash_from_hex),
    PayloadField("receiptsRoot", hash_from_hex),
    PayloadField("logsBloom", _bloom),
    PayloadField("prevRandao", hash_from_hex),
    PayloadField("blockNumber", from_quantity),
    PayloadField("gasLimit", from_quantity),
    PayloadField("gasUsed", from_quantity),
    PayloadField("timestamp", from_quantity),
    PayloadField("extraData", from_hex),
    PayloadField("baseFeePerGas", partial(from_quantity, bits=256)),
    PayloadField("blockHash", hash_from_hex),
    PayloadField("transactions", _transactions),
    PayloadField("withdrawals", _withdrawals),
    PayloadField("blobGasUsed", from_quantity, is_optional=True),
    PayloadField("excessBlobGas", from_quantity, is_optional=True),
    PayloadField("withdrawalsRoot", hash_from_hex, is_optional=True),
)
"""In the order of ExecutionPayload's attributes."""
