"""The pure part of `replay`: attributes as a line of JSON, and the safe head that follows from them."""

from typing import Any

import msgspec

from rollup_node.stages.messages import Derived
from rollup_node.stages.protocol.attributes import config_after
from rollup_node.stages.protocol.config import RollupConfig, SystemConfig
from rollup_node.stages.protocol.consolidation import mismatch
from rollup_node.stages.protocol.hexes import to_hex
from rollup_node.stages.protocol.l1_info import L1Info, l1_info_of_block
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.types import Hash, L2BlockRef

UNKNOWN_HASH: Hash = b"\xff" * 32
"""Stands for the hash of a block that the source does not have; no block has it."""


class Judged(msgspec.Struct, frozen=True):
    """A derived block: its line, the safe head after it, and how it differs from the source's block, if it does."""

    values: dict[str, Any]
    safe_head: L2BlockRef
    safe_config: SystemConfig
    difference: str | None


def judge(rollup: RollupConfig, derived: Derived, known: ExecutionPayload | None) -> Judged:
    """Compares attributes with the source's block of the same number, if it has one."""
    attributes, number = derived.attributes, derived.parent.number + 1
    info = l1_info_of_block(attributes.transactions, rollup.schedule().l1_info_format(attributes.timestamp))
    difference = None
    if known is not None:
        parent_hash = known.parent_hash if derived.parent.hash == UNKNOWN_HASH else derived.parent.hash
        found = mismatch(rollup, attributes, parent_hash, known)
        difference = None if found is None else f"{found.field.value}: {found.text}"
    block_hash = known.block_hash if known is not None and difference is None else UNKNOWN_HASH
    safe_head = L2BlockRef(
        block_hash, number, derived.parent.hash, attributes.timestamp, info.origin, info.sequence_number
    )
    values = _values(derived, number, info, None if block_hash == UNKNOWN_HASH else block_hash)
    return Judged(values, safe_head, config_after(rollup, attributes, number), difference)


def _values(derived: Derived, number: int, info: L1Info, block_hash: Hash | None) -> dict[str, Any]:
    attributes = derived.attributes
    root = attributes.parent_beacon_root
    values: dict[str, Any] = {
        "number": number,
        "timestamp": attributes.timestamp,
        "epoch": {"number": info.number, "hash": to_hex(info.block_hash)},
        "sequence_number": info.sequence_number,
        "prev_randao": to_hex(attributes.prev_randao),
        "fee_recipient": to_hex(attributes.fee_recipient),
        "gas_limit": attributes.gas_limit,
        "parent_beacon_root": None if root is None else to_hex(root),
        "transactions": [to_hex(raw) for raw in attributes.transactions],
        "derived_from": derived.derived_from.number,
        "hash": None if block_hash is None else to_hex(block_hash),
    }
    if attributes.eip1559_params is not None:
        values["eip1559_params"] = to_hex(attributes.eip1559_params)
    if attributes.min_base_fee is not None:
        values["min_base_fee"] = attributes.min_base_fee
    return values
