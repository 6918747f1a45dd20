"""Receipts: their encoding for the receipts root, the logs that derivation reads, blooms [DEP13, DEP29, DEP31].

A header whose bloom excludes an address or topic proves that none of its block's logs has it."""

from binascii import unhexlify
from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from rollup_node.stages.protocol import rlp
from rollup_node.stages.protocol.deposits import DEPOSIT_PREFIX, DEPOSIT_TYPE
from rollup_node.stages.protocol.errors import DECODE_ERRORS
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.rlp import RlpError
from rollup_node.stages.protocol.rlp_hex import data, list_header, number, string_header, wrap_list
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
        fields = _encoded_fields(receipt, kind)
        prefix = f"{kind:02x}" if kind else ""
        return unhexlify("".join((prefix, list_header(sum(map(len, fields)) >> 1), *fields)))
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


def _encoded_fields(receipt: ReceiptJson, kind: int) -> list[str]:
    """Return the digits of the fields in pieces, as joining them twice would take longer."""
    if receipt.status is not None:
        outcome = number(receipt.status)
    elif receipt.root is not None:
        outcome = "a0" + receipt.root[2:]
    else:
        raise ReceiptError("receipt without status and root")
    logs = "".join([_log_hex(log) for log in receipt.logs])
    gas, bloom = number(receipt.cumulative_gas_used), receipt.logs_bloom[2:]
    fields = [outcome, gas, "b90100", bloom, list_header(len(logs) >> 1), logs]
    if kind == DEPOSIT_TYPE and receipt.deposit_nonce is not None and receipt.deposit_receipt_version is not None:
        fields += number(receipt.deposit_nonce), number(receipt.deposit_receipt_version)
    return fields


def _log_hex(log: LogJson) -> str:
    topics = "".join(log.topics).replace("0x", "a0")
    body, topics_header, data_header = _log_headers(len(topics) >> 1, (len(log.data) >> 1) - 1)
    # One byte below 0x80 is its own encoding.
    if len(log.data) == 4:
        return wrap_list(f"94{log.address[2:]}{topics_header}{topics}{data(log.data)}")
    return f"{body}{log.address[2:]}{topics_header}{topics}{data_header}{log.data[2:]}"


@lru_cache(1024)
def _log_headers(topics: int, size: int) -> tuple[str, str, str]:
    """Return what stands before the address, the topics, and the data of a log, by the bytes of topics and data."""
    topics_header, data_header = list_header(topics), string_header(size)
    return f"{list_header(21 + len(topics_header + data_header) // 2 + topics + size)}94", topics_header, data_header


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
    # Most blocks have none, and a search is much cheaper than decoding.
    holders = {index for address, _ in wanted for index, raw in enumerate(receipts) if address in raw}
    result: list[Log] = []
    index = counted = 0
    for holder in sorted(holders):
        # Logs are numbered over the block, so those of other receipts count without being decoded.
        index += sum(map(_log_count, receipts[counted:holder]))
        counted = holder + 1
        receipt = _decoded_or_none(receipts[holder])
        if receipt is None:
            continue
        for address, topics, log_data in receipt.logs:
            if receipt.succeeded and topics and (address, topics[0]) in wanted:
                result.append(Log(address, topics, log_data, index))
            index += 1
    return tuple(result)


def _decoded_or_none(raw: bytes) -> Receipt | None:
    """Return the receipt, or None if it does not decode and so counts as one without logs [DEP31]."""
    try:
        return decode_receipt(raw)
    except RlpError:
        return None


def _log_count(raw: bytes) -> int:
    """Return how many logs an encoded receipt has. They are counted in the verified bytes, never in JSON."""
    try:
        fields = rlp.item_ends(raw, 0 if raw[:1] >= b"\xc0" else 1)
        return len(rlp.item_ends(raw[: fields[_LOGS_FIELD]], fields[_LOGS_FIELD - 1]))
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
