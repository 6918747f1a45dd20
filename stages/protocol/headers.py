"""Block headers of L1 and L2: fields, RLP, JSON and hash; the root of withdrawals [HSH1 to HSH5, HSH8].

The fields from the base fee on are optional: a header ends at its last present one [HSH2]."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from rollup_node.stages.protocol import rlp
from rollup_node.stages.protocol.hex_encoding import HexError, address_from_hex, from_hex, from_hex_sized, from_quantity
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.mpt import ordered_root
from rollup_node.stages.protocol.rlp import encode_bytes, encode_int
from rollup_node.stages.protocol.types import Address, Hash, L1Header

EMPTY_UNCLES_HASH: Hash = bytes.fromhex("1dcc4de8dec75d7aab85b567b6ccd41ad312451b948a7413f0a142fd40d49347")
EMPTY_REQUESTS_HASH: Hash = bytes.fromhex("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
ZERO_NONCE = bytes(8)

REQUIRED_FIELDS = 15


class HeaderField(NamedTuple):
    """A field of the header: its JSON-RPC name, and its size in bytes (0: any) or, for a number, in bits."""

    json_name: str
    size: int = 0
    bits: int = 0


HEADER_FIELDS: tuple[HeaderField, ...] = (
    HeaderField("parentHash", size=32),
    HeaderField("sha3Uncles", size=32),
    HeaderField("miner", size=20),
    HeaderField("stateRoot", size=32),
    HeaderField("transactionsRoot", size=32),
    HeaderField("receiptsRoot", size=32),
    HeaderField("logsBloom", size=256),
    HeaderField("difficulty", bits=256),
    HeaderField("number", bits=64),
    HeaderField("gasLimit", bits=64),
    HeaderField("gasUsed", bits=64),
    HeaderField("timestamp", bits=64),
    HeaderField("extraData"),
    HeaderField("mixHash", size=32),
    HeaderField("nonce", size=8),
    HeaderField("baseFeePerGas", bits=256),
    HeaderField("withdrawalsRoot", size=32),
    HeaderField("blobGasUsed", bits=64),
    HeaderField("excessBlobGas", bits=64),
    HeaderField("parentBeaconBlockRoot", size=32),
    HeaderField("requestsHash", size=32),
    HeaderField("blockAccessListHash", size=32),
    HeaderField("slotNumber", bits=64),
)
"""In the order of the RLP list, which is that of Header's attributes as well [HSH1]."""

HEADER_MEMBERS = [(name, str | None, None) for name in ("hash", *(field.json_name for field in HEADER_FIELDS))]
"""The members of a JSON-RPC block that are its header and its hash, as fields of a type to decode answers to."""

HeaderJson: Any = msgspec.defstruct("HeaderJson", HEADER_MEMBERS)
"""A JSON-RPC block without its transactions."""

UNREAD_FIELDS = frozenset(
    ("sha3Uncles", "miner", "stateRoot", "transactionsRoot", "difficulty", "gasLimit", "extraData", "nonce")
)
"""Nothing is derived from them; only the hash needs them."""


class HeaderError(ValueError):
    """The header is malformed; the text says where."""


class Header(msgspec.Struct, frozen=True):
    """A block header; `timestamp` in seconds, fees in wei."""

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
    """Return the RLP list of the header, up to its last present field."""
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
    """Return the block's hash: the keccak of the RLP."""
    return keccak256(encode_header(header))


def header_from_json(block: Mapping[str, Any], trust: bool = False) -> Header:
    """Return the header in a JSON-RPC block; with `trust` it may lack UNREAD_FIELDS, which are zero then [LHD10].

    Raises HeaderError, which names the field that is missing or malformed."""
    values: list[Any] = []
    for index, field in enumerate(HEADER_FIELDS):
        text = block.get(field.json_name)
        if text is None and index >= REQUIRED_FIELDS:
            values.append(None)
            continue
        if text is None and trust and field.json_name in UNREAD_FIELDS:
            values.append(0 if field.bits else bytes(field.size))
            continue
        try:
            if field.bits:
                values.append(from_quantity(text, field.bits))
            else:
                values.append(from_hex_sized(text, field.size) if field.size else from_hex(text))
        except HexError as error:
            raise HeaderError(f"{field.json_name}: {error}") from None
    return Header(*values)


def l1_header(header: Header, block_hash: Hash) -> L1Header:
    """Return the part of an L1 header that derivation reads; a base fee that is absent (before London) is 0."""
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


class WithdrawalJson(msgspec.Struct, rename="camel"):
    """The members of a JSON-RPC withdrawal."""

    index: str
    validator_index: str
    address: str
    amount: str


def withdrawals_root(withdrawals: Sequence[WithdrawalJson]) -> Hash:
    """Return the withdrawals root of a JSON-RPC block's list. Raises HexError for a malformed entry."""
    return ordered_root([_encode_withdrawal(withdrawal) for withdrawal in withdrawals])


def _encode_withdrawal(withdrawal: WithdrawalJson) -> bytes:
    return rlp.encode_list(
        (
            encode_int(from_quantity(withdrawal.index)),
            encode_int(from_quantity(withdrawal.validator_index)),
            encode_bytes(address_from_hex(withdrawal.address)),
            encode_int(from_quantity(withdrawal.amount)),
        )
    )
