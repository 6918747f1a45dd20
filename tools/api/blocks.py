"""What a derivation gives: blocks with their batches and drops, also as tables of pyarrow, pandas and polars."""

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

import msgspec

from rollup_node.stages.messages.derivation import Drop, DropEffect
from rollup_node.stages.protocol.payloads import PayloadAttributes
from rollup_node.stages.protocol.types import UNKNOWN_HASH, BlockId, Hash, L1BlockRef
from rollup_node.tools.api.errors import needs_extra
from rollup_node.tools.inspect.batch_summary import Batch

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

    from rollup_node.tools.inspect.replay import BlockComparison

__all__ = ["Batch", "Block", "Drop", "DropEffect", "block_of"]


class Block(msgspec.Struct, frozen=True):
    """A derived L2 block.

    `attributes` are its payload attributes, `l1_origin` is its epoch, and `sequence_number` its place in that.
    `l1_inclusion` is the L1 block with which it became derivable. `batch` is None for an empty block that the rules
    make. `drops` is the input that was dropped since the block before, of which `drops_omitted` more were not kept.
    `hash` is that of the L2 source's block, None where that has none or another one; `differences` has a text for each
    field in which they differ."""

    number: int
    attributes: PayloadAttributes
    batch: Batch | None
    l1_origin: BlockId
    sequence_number: int
    l1_inclusion: L1BlockRef
    drops: tuple[Drop, ...]
    hash: Hash | None
    differences: tuple[str, ...] = ()
    drops_omitted: int = 0

    @property
    def timestamp(self) -> int:
        """The time of the block in Unix seconds."""
        return self.attributes.timestamp


def block_of(comparison: "BlockComparison", batch: Batch | None, drops: tuple[Drop, ...], omitted: int) -> Block:
    """Return a derived block with what was dropped before it."""
    head = comparison.safe_head
    return Block(
        number=head.number,
        attributes=comparison.derived.attributes,
        batch=batch,
        l1_origin=head.l1_origin,
        sequence_number=head.sequence_number,
        l1_inclusion=comparison.derived.derived_from,
        drops=drops,
        hash=None if head.hash == UNKNOWN_HASH else head.hash,
        differences=comparison.differences,
        drops_omitted=omitted,
    )


def _of_batch(name: str) -> Callable[[Block], Any]:
    return lambda block: None if block.batch is None else getattr(block.batch, name)


COLUMNS: Mapping[str, tuple[str, Callable[[Block], Any]]] = {
    "number": ("uint64", lambda block: block.number),
    "hash": ("binary", lambda block: block.hash),
    "timestamp": ("uint64", lambda block: block.timestamp),
    "l1_origin": ("uint64", lambda block: block.l1_origin.number),
    "sequence_number": ("uint64", lambda block: block.sequence_number),
    "l1_inclusion": ("uint64", lambda block: block.l1_inclusion.number),
    "l1_inclusion_time": ("uint64", lambda block: block.l1_inclusion.timestamp),
    "transactions": ("uint32", lambda block: len(block.attributes.transactions)),
    "transaction_bytes": ("uint64", lambda block: sum(map(len, block.attributes.transactions))),
    "gas_limit": ("uint64", lambda block: block.attributes.gas_limit),
    "batch": ("string", _of_batch("kind")),
    "batch_blocks": ("uint64", _of_batch("blocks")),
    "channel": ("binary", _of_batch("channel")),
    "channel_bytes": ("uint64", _of_batch("channel_bytes")),
    "drops": ("list", lambda block: [drop.rule for drop in block.drops]),
    "differences": ("list", lambda block: list(block.differences)),
}
"""The columns of a table of blocks: their Arrow types, and the values of a block.

The lists are of texts: ids of rules, and differences."""
ROWS = 10_000
"""Blocks that are kept as Python values before they become a piece of the table."""


def arrow_table(blocks: Iterable[Block]) -> "pyarrow.Table":
    """Return the blocks as an Arrow table. Raises InputError without pyarrow."""
    arrow = _imported("pyarrow")
    schema = arrow.schema([(name, _arrow_type(arrow, kind)) for name, (kind, _) in COLUMNS.items()])
    pieces, rows = [schema.empty_table()], []
    for block in blocks:
        rows.append({name: value(block) for name, (_, value) in COLUMNS.items()})
        if len(rows) == ROWS:
            pieces.append(arrow.Table.from_pylist(rows, schema))
            rows = []
    return arrow.concat_tables([*pieces, arrow.Table.from_pylist(rows, schema)])


def pandas_frame(blocks: Iterable[Block]) -> "pandas.DataFrame":
    """Return the blocks as a pandas frame. Raises InputError without pandas and pyarrow."""
    _imported("pandas")
    frame: pandas.DataFrame = arrow_table(blocks).to_pandas()
    return frame


def polars_frame(blocks: Iterable[Block]) -> "polars.DataFrame":
    """Return the blocks as a polars frame. Raises InputError without polars and pyarrow."""
    frame: polars.DataFrame = _imported("polars").from_arrow(arrow_table(blocks))
    return frame


def _arrow_type(arrow: Any, kind: str) -> Any:
    return arrow.list_(arrow.string()) if kind == "list" else getattr(arrow, kind)()


def _imported(package: str) -> Any:
    try:
        return import_module(package)
    except ModuleNotFoundError:
        raise needs_extra(package) from None
