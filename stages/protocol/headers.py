"""Block headers of both chains: their 23 fields, RLP and hash (attributes-rules 6.1, 6.2).

The fields from the base fee on are optional: a header ends at its last present one.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from rollup_node.stages.protocol import rlp
from rollup_node.stages.protocol.hex_encoding import HexError, from_hex, from_hex_sized, from_quantity
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.rlp import RlpError, encode_bytes, encode_int
from rollup_node.stages.protocol.types import Address, Hash, L1Header

EMPTY_UNCLES_HASH: Hash = bytes.fromhex("1dcc4de8dec75d7aab85b567b6ccd41ad312451b948a7413f0a142fd40d49347")
EMPTY_REQUESTS_HASH: Hash = bytes.fromhex("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
ZERO_NONCE = bytes(8)

_REQUIRED = 15
_U64: Final = 64
_U256: Final = 256
_EXTRA_DATA: Final = 0
_FIELDS: tuple[tuple[str, str, int, bool], ...] = (
    ("parent_hash", "parentHash", 32, False),
    ("uncles_hash", "sha3Uncles", 32, False),
    ("miner", "miner", 20, False),
    ("state_root", "stateRoot", 32, False),
    ("transactions_root", "transactionsRoot", 32, False),
    ("receipts_root", "receiptsRoot", 32, False),
    ("logs_bloom", "logsBloom", 256, False),
    ("difficulty", "difficulty", _U256, True),
    ("number", "number", _U64, True),
    ("gas_limit", "gasLimit", _U64, True),
    ("gas_used", "gasUsed", _U64, True),
    ("timestamp", "timestamp", _U64, True),
    ("extra_data", "extraData", _EXTRA_DATA, False),
    ("mix_hash", "mixHash", 32, False),
    ("nonce", "nonce", 8, False),
    ("base_fee", "baseFeePerGas", _U256, True),
    ("withdrawals_root", "withdrawalsRoot", 32, False),
    ("blob_gas_used", "blobGasUsed", _U64, True),
    ("excess_blob_gas", "excessBlobGas", _U64, True),
    ("parent_beacon_root", "parentBeaconBlockRoot", 32, False),
    ("requests_hash", "requestsHash", 32, False),
    ("block_access_list_hash", "blockAccessListHash", 32, False),
    ("slot_number", "slotNumber", _U64, True),
)
"""Attribute, JSON name, size in bytes (in bits for numbers, 0: any), and whether it is a number; in RLP order."""


class HeaderError(ValueError):
    """The header is malformed; the text names the field."""


class Header(msgspec.Struct, frozen=True):
    """A block header; times in seconds, fees in wei."""

    parent_hash: Hash
    uncles_hash: Hash
    miner: Address
    state_root: Hash
    transactions_root: Hash
    receipts_root: Hash
    logs_bloom: bytes
    difficulty: int
    number: int
    gas_limit: int
    gas_used: int
    timestamp: int
    extra_data: bytes
    mix_hash: Hash
    nonce: bytes
    base_fee: int | None = None
    withdrawals_root: Hash | None = None
    blob_gas_used: int | None = None
    excess_blob_gas: int | None = None
    parent_beacon_root: Hash | None = None
    requests_hash: Hash | None = None
    block_access_list_hash: Hash | None = None
    slot_number: int | None = None


def encode_header(header: Header) -> bytes:
    """The RLP whose keccak is the block's hash."""
    parts: list[bytes] = []
    filled = 0
    for value in msgspec.structs.astuple(header):
        if value is None:
            parts.append(rlp.EMPTY_STRING)
        else:
            parts.append(encode_int(value) if type(value) is int else encode_bytes(value))
            filled = len(parts)
    return rlp.encode_list(parts[:filled])


def header_hash(header: Header) -> Hash:
    """The block's hash."""
    return keccak256(encode_header(header))


def decode_header(raw: bytes) -> Header:
    """The inverse of `encode_header`, canonical encodings only."""
    try:
        items = rlp.decode_list(raw)
        if not _REQUIRED <= len(items) <= len(_FIELDS):
            raise HeaderError(f"header of {len(items)} fields")
        last = len(items) - 1
        values: list[Any] = [
            None if item == b"" and _REQUIRED <= index < last and not is_number else _decoded(item, size, is_number)
            for index, (item, (_, _, size, is_number)) in enumerate(zip(items, _FIELDS, strict=False))
        ]
    except RlpError as error:
        raise HeaderError(f"malformed header: {error}") from None
    return Header(*values)


def _decoded(item: Any, size: int, is_number: bool) -> Any:
    if is_number:
        return rlp.decode_int(item, size)
    if size:
        return rlp.decode_sized(item, size)
    if type(item) is not bytes:
        raise RlpError("expected bytes, got a list")
    return item


def header_from_json(block: Mapping[str, Any]) -> Header:
    """The header in an `eth_getBlockBy...` result."""
    values: list[Any] = []
    for index, (_, name, size, is_number) in enumerate(_FIELDS):
        text = block.get(name)
        if text is None and index >= _REQUIRED:
            values.append(None)
            continue
        try:
            if is_number:
                values.append(from_quantity(text, size))
            else:
                values.append(from_hex_sized(text, size) if size else from_hex(text))
        except HexError as error:
            raise HeaderError(f"{name}: {error}") from None
    return Header(*values)


def l1_header(header: Header, block_hash: Hash) -> L1Header:
    """What derivation reads of an L1 header."""
    return L1Header(
        hash=block_hash,
        number=header.number,
        parent_hash=header.parent_hash,
        timestamp=header.timestamp,
        mix_hash=header.mix_hash,
        base_fee=header.base_fee or 0,
        excess_blob_gas=header.excess_blob_gas,
        parent_beacon_root=header.parent_beacon_root,
    )
