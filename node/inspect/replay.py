"""The pure part of `replay`: attributes as a line of JSON, and the safe head that follows from them."""

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any

import msgspec

from rollup_node.stages.messages.engine import AttributesReady
from rollup_node.stages.protocol.attributes import system_config_after
from rollup_node.stages.protocol.config import RollupConfig, SystemConfig
from rollup_node.stages.protocol.consolidation import mismatches
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.l1_info import L1Info, L1InfoError, l1_info_of_block
from rollup_node.stages.protocol.payloads import ExecutionPayload, PayloadAttributes
from rollup_node.stages.protocol.types import Hash, L2BlockRef

MAX_TRANSACTIONS = 20
"""How many transactions of a block that differs are told of."""

UNKNOWN_HASH: Hash = b"\xff" * 32
"""Stands for the hash of a block that the source does not have; no block has it."""


class Judged(msgspec.Struct, frozen=True):
    """A derived block: its line, the safe head after it, and each field in which it differs from the source's block."""

    values: dict[str, Any]
    safe_head: L2BlockRef
    safe_config: SystemConfig
    differences: tuple[str, ...]


def judge(rollup: RollupConfig, derived: AttributesReady, known: ExecutionPayload | None) -> Judged:
    """Compares attributes with the source's block of the same number, if it has one."""
    attributes, number = derived.attributes, derived.parent.number + 1
    info = l1_info_of_block(attributes.transactions, rollup.schedule().l1_info_format(attributes.timestamp))
    found: tuple[str, ...] = ()
    if known is not None:
        parent_hash = known.parent_hash if derived.parent.hash == UNKNOWN_HASH else derived.parent.hash
        found = tuple(_differences(rollup, attributes, parent_hash, known))
    block_hash = known.block_hash if known is not None and not found else UNKNOWN_HASH
    safe_head = L2BlockRef(
        block_hash, number, derived.parent.hash, attributes.timestamp, info.origin, info.sequence_number
    )
    values = _values(derived, number, info, None if block_hash == UNKNOWN_HASH else block_hash)
    if found:
        values["differences"] = found
    return Judged(values, safe_head, system_config_after(rollup, attributes, number), found)


def _differences(
    rollup: RollupConfig, attributes: PayloadAttributes, parent_hash: Hash, known: ExecutionPayload
) -> Iterator[str]:
    for found in mismatches(rollup, attributes, parent_hash, known):
        yield f"{found.field.value}: {found.text}"
    derived, existing = attributes.transactions, known.transactions
    if derived[:1] != existing[:1]:
        yield from _info_differences(rollup, attributes.timestamp, derived, existing)
    places = [place for place, pair in enumerate(zip_longest(derived, existing)) if pair[0] != pair[1]]
    for place in places[:MAX_TRANSACTIONS]:
        yield f"transaction {place}: derived {_shown(derived, place)}, in the source {_shown(existing, place)}"
    if len(places) > MAX_TRANSACTIONS:
        yield f"{len(places) - MAX_TRANSACTIONS} more transactions differ"


def _info_differences(
    rollup: RollupConfig, timestamp: int, derived: tuple[bytes, ...], existing: tuple[bytes, ...]
) -> Iterator[str]:
    layout = rollup.schedule().l1_info_format(timestamp)
    expected = l1_info_of_block(derived, layout)
    try:
        got = l1_info_of_block(existing, layout)
    except L1InfoError as error:
        yield f"l1_info: the source's first transaction is none: {error}"
        return
    for name in expected.__struct_fields__:
        pair = getattr(expected, name), getattr(got, name)
        if pair[0] != pair[1]:
            yield "l1_info.{}: derived {}, in the source {}".format(
                name, *(to_hex(value) if isinstance(value, bytes) else value for value in pair)
            )


def _shown(transactions: Sequence[bytes], place: int) -> str:
    if place >= len(transactions):
        return "none"
    raw = transactions[place]
    return f"{to_hex(keccak256(raw))} ({len(raw)} bytes)"


def _values(derived: AttributesReady, number: int, info: L1Info, block_hash: Hash | None) -> dict[str, Any]:
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
