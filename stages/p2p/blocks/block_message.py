"""The gossip message of a block: signature, from version 3 on parent beacon root, SSZ payload, as a snappy block.

Each version has its topic; publishing picks it by the block's timestamp [GSP1, GSP2]. A fixed part of the SSZ,
little-endian, holds the offsets of the lists that follow it: extra data, transactions, withdrawals. Offsets must be
without gap or overlap, and nothing is allocated by a number that was only claimed [SSZ1 to SSZ5].
"""

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from rollup_node.stages.p2p.encoding import snappy
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.secp256k1 import SIGNATURE_SIZE
from rollup_node.stages.protocol.types import Hash

FIXED_SIZES = {1: 508, 2: 512, 3: 528, 4: 560}
"""Bytes of the fixed part by version [SSZ2]: 2 adds withdrawals, 3 blob gas, 4 the withdrawals root."""

MAX_EXTRA_DATA = 32
MAX_TRANSACTIONS = 1 << 20
MAX_WITHDRAWALS = 16
WITHDRAWAL_SIZE = 44

_BASE = struct.Struct("<32s20s32s32s256s32sQQQQI32s32sI")
"""The fields of ExecutionPayload in their order, with an offset in the place of extra data, and of transactions."""
_HEAD_FIELDS = 10
"""Of these before the extra data."""
_OFFSET = struct.Struct("<I")
_BLOB_GAS = struct.Struct("<QQ")

VERSIONS = tuple(FIXED_SIZES)
MIN_BYTES = SIGNATURE_SIZE + 1
"""The shortest decompressed message: a signature and one more byte [GSP3]."""
_FIRST_WITH_BEACON_ROOT = 3
_ROOT_SIZE = 32


class SszError(ValueError):
    """Not the SSZ of a payload of that version, or a payload that the version cannot encode."""


class DecodedPayload(NamedTuple):
    """A decoded payload, and its number of withdrawals (an L2 block has none)."""

    payload: ExecutionPayload
    withdrawal_count: int


def block_topic(chain_id: int, version: int) -> str:
    """Return the topic of a version (1 to 4) of the block encoding."""
    return f"/optimism/{chain_id}/{version - 1}/blocks"


def block_topics(chain_id: int) -> dict[str, int]:
    """All block topics of a chain with their versions, oldest first."""
    return {block_topic(chain_id, version): version for version in VERSIONS}


def version_at(config: RollupConfig, timestamp: int) -> int:
    return config.schedule().l2(timestamp).block_topic_version


def has_beacon_root(version: int) -> bool:
    """Whether the parent beacon root precedes the SSZ payload in that version."""
    return version >= _FIRST_WITH_BEACON_ROOT


def encode_signed_part(payload: ExecutionPayload, version: int) -> bytes:
    """Encode the bytes that are signed. Raises SszError when the payload lacks a field of the version."""
    encoded = encode_ssz(payload, version)
    if not has_beacon_root(version):
        return encoded
    if payload.parent_beacon_root is None:
        raise SszError("the payload has no parent beacon root")
    return payload.parent_beacon_root + encoded


def encode_message(signature: bytes, signed_part: bytes) -> bytes:
    return snappy.compress(signature + signed_part)


def split_signature(content: bytes) -> tuple[bytes, bytes]:
    """Split a decompressed message of at least MIN_BYTES into the signature and the bytes it signs."""
    return content[:SIGNATURE_SIZE], content[SIGNATURE_SIZE:]


def decode_signed_part(signed_part: bytes, version: int) -> DecodedPayload:
    """Decode the block in the bytes that are signed. Raises SszError when they are malformed."""
    if not has_beacon_root(version):
        return decode_ssz(signed_part, version)
    if len(signed_part) < _ROOT_SIZE:
        raise SszError(f"{len(signed_part)} bytes, fewer than a beacon root")
    return decode_ssz(signed_part[_ROOT_SIZE:], version, signed_part[:_ROOT_SIZE])


def encode_ssz(payload: ExecutionPayload, version: int) -> bytes:
    """Encode a payload. Raises SszError when it lacks a field of the version."""
    fixed = FIXED_SIZES[version]
    transactions = encode_list(payload.transactions)
    transactions_at = fixed + len(payload.extra_data)
    if len(payload.extra_data) > MAX_EXTRA_DATA:
        raise SszError(f"{len(payload.extra_data)} bytes of extra data")
    base_fee = payload.base_fee.to_bytes(32, "little")
    head = msgspec.structs.astuple(payload)[:_HEAD_FIELDS]
    base = _BASE.pack(*head, fixed, base_fee, payload.block_hash, transactions_at)
    extras = _encode_extras(payload, version, transactions_at + len(transactions))
    return b"".join((base, extras, payload.extra_data, transactions))


def _encode_extras(payload: ExecutionPayload, version: int, end: int) -> bytes:
    extras = b""
    if version >= 2:
        if not payload.withdrawals:
            raise SszError("the payload has no list of withdrawals")
        extras += _OFFSET.pack(end)
    if version >= 3:
        if payload.blob_gas_used is None or payload.excess_blob_gas is None:
            raise SszError("the payload has no blob gas fields")
        extras += _BLOB_GAS.pack(payload.blob_gas_used, payload.excess_blob_gas)
    if version >= 4:
        if payload.withdrawals_root is None:
            raise SszError("the payload has no withdrawals root")
        extras += payload.withdrawals_root
    return extras


def decode_ssz(data: bytes, version: int, parent_beacon_root: Hash | None = None) -> DecodedPayload:
    """Decode a payload; `parent_beacon_root` travels beside it. Raises SszError when it is malformed [SSZ4]."""
    fixed = FIXED_SIZES[version]
    if len(data) < fixed:
        raise SszError(f"{len(data)} bytes, fewer than the fixed part's {fixed}")
    *head, extra_data_at, base_fee, block_hash, transactions_at = _BASE.unpack_from(data)
    (end,) = _OFFSET.unpack_from(data, FIXED_SIZES[1]) if version >= 2 else (len(data),)
    blob_gas = _BLOB_GAS.unpack_from(data, FIXED_SIZES[2]) if version >= 3 else (None, None)
    if extra_data_at != fixed:
        raise SszError(f"extra data at {extra_data_at}, not at {fixed}")
    if not extra_data_at <= transactions_at <= end <= len(data):
        raise SszError(f"offsets {extra_data_at}, {transactions_at}, {end} in {len(data)} bytes")
    if transactions_at - extra_data_at > MAX_EXTRA_DATA:
        raise SszError(f"{transactions_at - extra_data_at} bytes of extra data")
    values: list[Any] = [
        *head,
        data[extra_data_at:transactions_at],
        int.from_bytes(base_fee, "little"),
        block_hash,
        decode_list(data, transactions_at, end),
        version >= 2,
        *blob_gas,
        data[FIXED_SIZES[3] : FIXED_SIZES[4]] if version >= 4 else None,
        parent_beacon_root,
    ]
    return DecodedPayload(ExecutionPayload(*values), _count_withdrawals(len(data) - end))


def encode_list(items: Sequence[bytes]) -> bytes:
    """Encode a list of byte strings: an offset for each, then the strings. Raises SszError when there are too many."""
    if len(items) > MAX_TRANSACTIONS:
        raise SszError(f"{len(items)} transactions")
    offset = 4 * len(items)
    offsets = []
    for item in items:
        offsets.append(offset)
        offset += len(item)
    return struct.pack(f"<{len(items)}I", *offsets) + b"".join(items)


def decode_list(data: bytes, start: int, end: int) -> tuple[bytes, ...]:
    """Decode the byte strings of the list in `data[start:end]`. Raises SszError when it is malformed."""
    size = end - start
    if not size:
        return ()
    first = int.from_bytes(data[start : min(start + 4, end)], "little")
    if size < 4 or not 0 < first <= size or first % 4:
        raise SszError(f"first transaction at {first} in {size} bytes")
    count = first // 4
    if count > MAX_TRANSACTIONS:
        raise SszError(f"{count} transactions")
    offsets = struct.unpack_from(f"<{count}I", data, start)
    items = []
    for begin, after in zip(offsets, (*offsets[1:], size), strict=True):
        if not begin <= after <= size:
            raise SszError(f"transaction from {begin} to {after} in {size} bytes")
        items.append(data[start + begin : start + after])
    return tuple(items)


def _count_withdrawals(size: int) -> int:
    count, rest = divmod(size, WITHDRAWAL_SIZE)
    if rest or count > MAX_WITHDRAWALS:
        raise SszError(f"{size} bytes of withdrawals")
    return count
