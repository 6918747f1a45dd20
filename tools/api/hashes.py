"""Hashes of attributes, outputs and payloads."""

from collections.abc import Mapping
from typing import Any

from rollup_node.stages.protocol import rlp
from rollup_node.stages.protocol.block_refs import BlockError, payload_from_block_json
from rollup_node.stages.protocol.engine_json import PayloadError, envelope_from_json, payload_from_json
from rollup_node.stages.protocol.hex_encoding import HexError, to_hex
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.payloads import PayloadAttributes, payload_block_hash
from rollup_node.stages.protocol.payloads import output_root as root_of_parts
from rollup_node.stages.protocol.types import BlockId, Hash, L1BlockRef
from rollup_node.tools.api.errors import DataError, InputError

__all__ = ["BlockId", "L1BlockRef", "PayloadAttributes", "attributes_hash", "output_root", "verify_payload"]


def attributes_hash(attributes: PayloadAttributes) -> Hash:
    """Return a hash of payload attributes, equal exactly for equal ones: for comparing derivations with each other.

    It is the keccak256 of the RLP list of the fields in their order, with an empty list for an absent field, and 1 or 0
    for a truth value."""
    fields = (getattr(attributes, name) for name in attributes.__struct_fields__)
    return keccak256(rlp.encode([_item(field) for field in fields]))


def _item(field: Any) -> rlp.Item:
    if field is None:
        return []
    if isinstance(field, int):
        return field.to_bytes((field.bit_length() + 7) // 8, "big")
    return list(field) if isinstance(field, tuple) else field


def output_root(state_root: Hash, storage_root: Hash, block_hash: Hash) -> Hash:
    """Return the version 0 output root of an L2 block; `storage_root` is the one of L2ToL1MessagePasser.

    Raises InputError for a value that is not of 32 bytes."""
    for name, value in (("state_root", state_root), ("storage_root", storage_root), ("block_hash", block_hash)):
        if not isinstance(value, bytes) or len(value) != 32:
            raise InputError(f"{name}: expected 32 bytes, got {value!r:.80}")
    return root_of_parts(state_root, storage_root, block_hash)


def verify_payload(payload: Mapping[str, Any], parent_beacon_root: Hash | None = None) -> Hash:
    """Return the block hash of a payload, after computing it from all other fields.

    `payload` is a JSON object: an Engine API payload, with its `parent_beacon_root`; the answer to engine_getPayload,
    which has that; or a block of eth_getBlockByNumber with full transactions. Raises DataError where it is malformed,
    or has another hash than it says [HSH14]."""
    if not isinstance(payload, Mapping):
        raise DataError(f"payload: expected an object, got {payload!r:.80}", rule="HSH14")
    try:
        if "hash" in payload:
            return payload_from_block_json(payload).block_hash
        if "executionPayload" in payload:
            read = envelope_from_json(payload)
        else:
            read = payload_from_json(payload, parent_beacon_root)
    except (BlockError, PayloadError, HexError) as error:
        raise DataError(f"payload: {error}", rule="HSH14") from None
    computed = payload_block_hash(read)
    if computed != read.block_hash:
        text = f"payload: block {read.block_number} says that its hash is {to_hex(read.block_hash)}"
        raise DataError(f"{text}, its content has {to_hex(computed)}", rule="HSH14")
    return computed
