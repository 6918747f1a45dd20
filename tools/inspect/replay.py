"""The pure part of `replay`: compares derived payload attributes with an existing block."""

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any

import msgspec

from rollup_node.ipc.bus.bus import Bus
from rollup_node.stages.derivation.config import DerivationConfig
from rollup_node.stages.derivation.pipeline.deriver import Deriver, Output
from rollup_node.stages.derivation.process.stage import DerivationStage
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.messages.engine import AttributesReady
from rollup_node.stages.protocol.attributes import system_config_after
from rollup_node.stages.protocol.config import RollupConfig, SystemConfig
from rollup_node.stages.protocol.consolidation import mismatches
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.l1_info import L1InfoError, l1_info_of_block
from rollup_node.stages.protocol.payloads import ExecutionPayload, PayloadAttributes
from rollup_node.stages.protocol.types import UNKNOWN_HASH, Hash, L2BlockRef
from rollup_node.tools.inspect.channel_sources import BlockSources
from rollup_node.tools.inspect.row_formats import Column, RowLayout, Values, shown_hashes, shown_time

MAX_TRANSACTIONS = 20
"""The most transactions listed of a block that differs."""


class BlockComparison(msgspec.Struct, frozen=True):
    """A derived block.

    The safe head and system config after it, and a text for each field in which it differs from the source's block."""

    derived: AttributesReady
    safe_head: L2BlockRef
    safe_config: SystemConfig
    differences: tuple[str, ...]

    @property
    def values(self) -> dict[str, Any]:
        """The block as a JSON object, the output of `replay`."""
        values = _values(self.derived, self.safe_head)
        return values | {"differences": self.differences} if self.differences else values


def compare_block(rollup: RollupConfig, derived: AttributesReady, known: ExecutionPayload | None) -> BlockComparison:
    """Compare derived attributes with the source's block of the same number, None if the source lacks it.

    An unknown parent hash is not compared."""
    attributes, number = derived.attributes, derived.parent.number + 1
    info = l1_info_of_block(attributes.transactions, rollup.schedule().l1_info_format(attributes.timestamp))
    differences: tuple[str, ...] = ()
    if known is not None:
        parent_hash = known.parent_hash if derived.parent.hash == UNKNOWN_HASH else derived.parent.hash
        differences = tuple(_differences(rollup, attributes, parent_hash, known))
    block_hash = known.block_hash if known is not None and not differences else UNKNOWN_HASH
    safe_head = L2BlockRef(
        block_hash, number, derived.parent.hash, attributes.timestamp, info.origin, info.sequence_number
    )
    return BlockComparison(derived, safe_head, system_config_after(rollup, attributes, number), differences)


def _differences(
    rollup: RollupConfig, attributes: PayloadAttributes, parent_hash: Hash, known: ExecutionPayload
) -> Iterator[str]:
    for mismatch in mismatches(rollup, attributes, parent_hash, known):
        yield f"{mismatch.field.value}: {mismatch.text}"
    derived, existing = attributes.transactions, known.transactions
    if derived[:1] != existing[:1]:
        yield from _info_differences(rollup, attributes.timestamp, derived, existing)
    indexes = [index for index, pair in enumerate(zip_longest(derived, existing)) if pair[0] != pair[1]]
    for index in indexes[:MAX_TRANSACTIONS]:
        yield f"transaction {index}: derived {_describe(derived, index)}, in the source {_describe(existing, index)}"
    if len(indexes) > MAX_TRANSACTIONS:
        yield f"{len(indexes) - MAX_TRANSACTIONS} more transactions differ"


def _info_differences(
    rollup: RollupConfig, timestamp: int, derived: tuple[bytes, ...], existing: tuple[bytes, ...]
) -> Iterator[str]:
    layout = rollup.schedule().l1_info_format(timestamp)
    expected = l1_info_of_block(derived, layout)
    try:
        actual = l1_info_of_block(existing, layout)
    except L1InfoError as error:
        yield f"l1_info: the source's first transaction is not an L1 info deposit: {error}"
        return
    for name in expected.__struct_fields__:
        pair = getattr(expected, name), getattr(actual, name)
        if pair[0] != pair[1]:
            yield "l1_info.{}: derived {}, in the source {}".format(
                name, *(to_hex(value) if isinstance(value, bytes) else value for value in pair)
            )


def _describe(transactions: Sequence[bytes], index: int) -> str:
    if index >= len(transactions):
        return "none"
    raw = transactions[index]
    return f"{to_hex(keccak256(raw))} ({len(raw)} bytes)"


def _values(derived: AttributesReady, block: L2BlockRef) -> dict[str, Any]:
    attributes = derived.attributes
    root = attributes.parent_beacon_root
    values: dict[str, Any] = {
        "number": block.number,
        "timestamp": attributes.timestamp,
        "epoch": {"number": block.l1_origin.number, "hash": to_hex(block.l1_origin.hash)},
        "sequence_number": block.sequence_number,
        "prev_randao": to_hex(attributes.prev_randao),
        "fee_recipient": to_hex(attributes.fee_recipient),
        "gas_limit": attributes.gas_limit,
        "parent_beacon_root": None if root is None else to_hex(root),
        "transactions": [to_hex(raw) for raw in attributes.transactions],
        "derived_from": derived.derived_from.number,
        "l1_transactions": [to_hex(source) for source in derived.sources],
        "hash": None if block.hash == UNKNOWN_HASH else to_hex(block.hash),
    }
    if attributes.eip1559_params is not None:
        values["eip1559_params"] = to_hex(attributes.eip1559_params)
    if attributes.min_base_fee is not None:
        values["min_base_fee"] = attributes.min_base_fee
    return values


# --- rows of the output --------------------------------------------------------------------------------------------


def _state(values: Values) -> str:
    return "differs" if "differences" in values else "equal" if values["hash"] else "not in source"


def _transaction_bytes(values: Values) -> int:
    return sum(len(raw) // 2 - 1 for raw in values["transactions"])


def _text(values: Values) -> str:
    parts = (
        f"L2 {values['number']}",
        f"time {values['timestamp']} {shown_time(values['timestamp'])}",
        f"epoch {values['epoch']['number']}",
        f"sequence {values['sequence_number']}",
        f"from L1 {values['derived_from']}",
        f"L1 transactions {' '.join(values['l1_transactions']) or '-'}",
        f"transactions {len(values['transactions'])}",
        f"bytes {_transaction_bytes(values)}",
        _state(values),
        *((values["hash"],) if values["hash"] else ()),
    )
    return "  ".join(parts)


def _cells(values: Values) -> tuple[str, ...]:
    return (
        str(values["number"]),
        shown_time(values["timestamp"], " "),
        str(values["epoch"]["number"]),
        str(values["sequence_number"]),
        str(values["derived_from"]),
        shown_hashes(values["l1_transactions"]),
        str(len(values["transactions"])),
        str(_transaction_bytes(values)),
        _state(values),
    )


def _record(values: Values) -> Values:
    return values | {
        "epoch_number": values["epoch"]["number"],
        "epoch_hash": values["epoch"]["hash"],
        "transactions": len(values["transactions"]),
        "transaction_bytes": _transaction_bytes(values),
        "state": _state(values),
    }


REPLAYED = RowLayout(
    (
        Column("L2 BLOCK", 9, right=True),
        Column("TIME (UTC)", 19),
        Column("ORIGIN", 8, right=True),
        Column("SEQ", 4, right=True),
        Column("READ AT", 8, right=True),
        Column("L1 TX", 12),
        Column("TXS", 4, right=True),
        Column("BYTES", 7, right=True),
        Column("COMPARED", 13),
    ),
    _cells,
    _text,
    (
        "number",
        "hash",
        "timestamp",
        "epoch_number",
        "epoch_hash",
        "sequence_number",
        "derived_from",
        "l1_transactions",
        "transactions",
        "transaction_bytes",
        "gas_limit",
        "fee_recipient",
        "prev_randao",
        "state",
        "differences",
    ),
    _record,
)
"""The rows of `replay`: L1 origin, sequence number in it, the L1 block at which the block was derived, and the L1
transactions of its batch; none for an empty block that the rules make."""


class ReplayDerivationStage(DerivationStage):
    """State, beside that of derivation: the L1 transactions of channels and batches."""

    def __init__(self, config: DerivationConfig, bus: Bus, meter: Meter) -> None:
        super().__init__(config, bus, meter)
        self._sources = BlockSources(config.rollup)
        self.deriver = Deriver(
            config.rollup, config.l1_chain, span_overlap_check=config.span_overlap_check, events=self._sources
        )

    def _handle(self, output: Output) -> bool:
        result = super()._handle(output)
        if isinstance(output, AttributesReady) and self._run.current is not None:
            accepted = self._sources.accepted
            sources = () if accepted is None else accepted.l1_transactions
            self._run.current = msgspec.structs.replace(self._run.current, sources=sources)
        return result


build = ReplayDerivationStage
