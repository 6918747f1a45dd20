"""Receipts: their encoding for the receipts root, the logs that derivation reads, blooms [DEP13, DEP29, DEP31].

A header whose bloom excludes an address or topic proves that none of its block's logs has it."""

from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from rollup_node.stages.protocol import rlp
from rollup_node.stages.protocol.deposits import DEPOSIT_PREFIX, DEPOSIT_TYPE
from rollup_node.stages.protocol.errors import DECODE_ERRORS
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.rlp import RlpError, encode_int, wrap_list
from rollup_node.stages.protocol.types import Address, Hash, Log

_FIELDS, _LOGS_FIELD = 4, 3
_SUCCESS = b"\x01"


class ReceiptError(ValueError):
    """The JSON text is not a receipt."""


class Receipt(msgspec.Struct, frozen=True):
    """A decoded receipt; `kind` is the transaction type.

    `succeeded` is None before Byzantium, where a receipt has a state root instead. `logs` are (address, topics,
    data)."""

    kind: int
    succeeded: bool | None
    cumulative_gas: int
    logs_bloom: bytes
    logs: tuple[tuple[Address, tuple[bytes, ...], bytes], ...]


class LogJson(msgspec.Struct, rename="camel", gc=False):
    """The members of a JSON-RPC log that are encoded, and those that say where it belongs."""

    address: str
    topics: list[str]
    data: str
    log_index: str | None = None
    transaction_index: str | None = None
    transaction_hash: str | None = None
    block_number: str | None = None
    block_hash: str | None = None
    removed: Any = None


class ReceiptJson(msgspec.Struct, rename="camel", gc=False):
    """The members of a JSON-RPC receipt that are encoded, and those that say where it belongs."""

    logs: list[LogJson]
    logs_bloom: str
    cumulative_gas_used: str
    type: str | None = None
    status: str | None = None
    root: str | None = None
    gas_used: str | None = None
    transaction_index: str | None = None
    transaction_hash: str | None = None
    block_number: str | None = None
    block_hash: str | None = None
    deposit_nonce: str | None = None
    deposit_receipt_version: str | None = None


_decoder = msgspec.json.Decoder(ReceiptJson)


def parse_receipt(text: msgspec.Raw | bytes) -> ReceiptJson:
    """Return the receipt in a JSON text. Raises ReceiptError."""
    try:
        return _decoder.decode(text)
    except DECODE_ERRORS as error:
        raise ReceiptError(f"malformed receipt: {error}"[:200]) from None


def receipt_from_json(value: Any) -> bytes:
    """Return the consensus encoding of a ReceiptJson or JSON object, also of an L2 deposit's. Raises ReceiptError.

    Values are converted without checks: a wrong one shows in the receipts root."""
    try:
        receipt = value if isinstance(value, ReceiptJson) else msgspec.convert(value, ReceiptJson)
        kind = int(receipt.type or "0x0", 16)
        body = wrap_list(_encoded_body(receipt, kind))
        return body if kind == 0 else kind.to_bytes(1, "big") + body
    except (ValueError, TypeError, OverflowError) as error:
        raise ReceiptError(f"malformed receipt: {error}"[:200]) from None


def receipt_from_raw(raw: bytes) -> bytes:
    """Return the consensus encoding of a raw receipt: a deposit's nonce without a version is left out [HSH9]."""
    if raw[:1] != DEPOSIT_PREFIX:
        return raw
    try:
        fields = rlp.decode_list(raw[1:])
    except RlpError:
        return raw
    return raw[:1] + rlp.encode(fields[:_FIELDS]) if len(fields) == _FIELDS + 1 else raw


def _encoded_body(receipt: ReceiptJson, kind: int) -> bytes:
    if receipt.status is not None:
        outcome = encode_int(int(receipt.status, 16))
    elif receipt.root is not None:
        outcome = b"\xa0" + bytes.fromhex(receipt.root[2:])
    else:
        raise ReceiptError("receipt without status and root")
    parts = [
        outcome,
        encode_int(int(receipt.cumulative_gas_used, 16)),
        b"\xb9\x01\x00" + bytes.fromhex(receipt.logs_bloom[2:]),
        wrap_list(bytes.fromhex("".join(map(_log_hex, receipt.logs)))),
    ]
    if kind == DEPOSIT_TYPE and receipt.deposit_nonce is not None and receipt.deposit_receipt_version is not None:
        parts.append(encode_int(int(receipt.deposit_nonce, 16)))
        parts.append(encode_int(int(receipt.deposit_receipt_version, 16)))
    return b"".join(parts)


def _log_hex(log: LogJson) -> str:
    """Return the digits of a log's encoding: all logs of a receipt are converted at once."""
    topics = "".join(["a0" + topic[2:] for topic in log.topics])
    data = log.data[2:]
    # One byte below 0x80 is its own encoding.
    data = data if len(data) == 2 and data < "80" else _header_hex(0x80, len(data) >> 1) + data
    body = f"94{log.address[2:]}{_header_hex(0xC0, len(topics) >> 1)}{topics}{data}"
    return _header_hex(0xC0, len(body) >> 1) + body


@lru_cache(4096)
def _header_hex(kind: int, size: int) -> str:
    """Return the digits of the header of a string (0x80) or list (0xc0) of so many bytes."""
    if size < 56:
        return f"{kind + size:02x}"
    width = (size.bit_length() + 7) >> 3
    return f"{kind + 55 + width:02x}{size:0{2 * width}x}"


def decode_receipt(raw: bytes) -> Receipt:
    """Return a receipt of any type, also of one that does not exist yet [DEP31]. Raises RlpError for another form."""
    if not raw:
        raise RlpError("empty receipt")
    kind = 0 if raw[0] >= 0xC0 else raw[0]
    items = rlp.decode_list(raw if raw[0] >= 0xC0 else raw[1:])
    if kind >= 0x80 or not (len(items) == _FIELDS or (kind == DEPOSIT_TYPE and 4 <= len(items) <= 6)):
        raise RlpError(f"receipt of type 0x{kind:02x} with {len(items)} fields")
    outcome, gas, bloom, logs = items[:4]
    if outcome not in (b"", _SUCCESS):
        rlp.decode_sized(outcome, 32)
    if not isinstance(logs, list):
        raise RlpError("expected a list of logs")
    return Receipt(
        kind=kind,
        succeeded=None if len(outcome) == 32 else outcome == _SUCCESS,
        cumulative_gas=rlp.decode_int(gas, 64),
        logs_bloom=rlp.decode_sized(bloom, 256),
        logs=tuple(map(_decoded_log, logs)),
    )


def _decoded_log(item: Any) -> tuple[Address, tuple[bytes, ...], bytes]:
    if not isinstance(item, list) or len(item) != 3 or not isinstance(item[1], list) or type(item[2]) is not bytes:
        raise RlpError("malformed log")
    return rlp.decode_sized(item[0], 20), tuple(rlp.decode_sized(topic, 32) for topic in item[1]), item[2]


def logs_of_receipts(receipts: Sequence[bytes], wanted: Collection[tuple[Address, Hash]]) -> tuple[Log, ...]:
    """Return the wanted logs of successful receipts, by address and first topic, numbered over the whole block."""
    addresses = {address for address, _ in wanted}
    # Most blocks have none, and a search is much cheaper than decoding.
    if not any(address in raw for raw in receipts for address in addresses):
        return ()
    result: list[Log] = []
    index = 0
    for raw in receipts:
        if not any(address in raw for address in addresses):
            # Logs are numbered over the block, so those of other receipts count without being decoded.
            index += _log_count(raw)
            continue
        receipt = _decoded_or_none(raw)
        if receipt is None:
            continue
        for address, topics, data in receipt.logs:
            if receipt.succeeded and topics and (address, topics[0]) in wanted:
                result.append(Log(address, topics, data, index))
            index += 1
    return tuple(result)


def _decoded_or_none(raw: bytes) -> Receipt | None:
    """Return the receipt, or None if it does not decode and so counts as one without logs [DEP31]."""
    try:
        return decode_receipt(raw)
    except RlpError:
        return None


def _log_count(raw: bytes) -> int:
    try:
        fields = rlp.split(raw, 0 if raw[:1] >= b"\xc0" else 1)
        return len(rlp.split(fields[_LOGS_FIELD]))
    except (RlpError, IndexError):
        return 0


_BITS = 2048


def bloom_mask(value: bytes) -> int:
    """Return the (at most) three bits that an address or topic of a log sets, as a 2048-bit number."""
    digest = keccak256(value)
    mask = 0
    for at in (0, 2, 4):
        mask |= 1 << (int.from_bytes(digest[at : at + 2], "big") % _BITS)
    return mask


def may_have(bloom: bytes, *masks: int) -> bool:
    """Whether the bloom has all bits of all masks; False proves that no log has all of them."""
    bits = int.from_bytes(bloom, "big")
    return all(bits & mask == mask for mask in masks)
