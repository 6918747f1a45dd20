"""Derived blocks as tables of pyarrow, pandas and polars, one row for each block."""

from collections.abc import Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from rollup_node.tools.api.blocks import Block, row_of
from rollup_node.tools.api.progress import needs_extra

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

COLUMNS = {
    "number": "uint64",
    "hash": "binary",
    "timestamp": "uint64",
    "l1_origin": "uint64",
    "sequence_number": "uint64",
    "l1_inclusion": "uint64",
    "l1_inclusion_time": "uint64",
    "transactions": "uint32",
    "transaction_bytes": "uint64",
    "gas_limit": "uint64",
    "batch": "string",
    "batch_blocks": "uint64",
    "channel": "binary",
    "channel_bytes": "uint64",
    "drops": "list",
    "differences": "list",
}
"""The columns and their Arrow types; the lists are of texts: ids of rules, and differences."""
ROWS = 10_000
"""Blocks that are kept as Python values before they become a piece of the table."""


def arrow_table(blocks: Iterable[Block]) -> "pyarrow.Table":
    """Return the blocks as an Arrow table. Raises InputError without pyarrow."""
    arrow = _imported("pyarrow")
    schema = arrow.schema([(name, _arrow_type(arrow, kind)) for name, kind in COLUMNS.items()])
    pieces, rows = [schema.empty_table()], []
    for block in blocks:
        rows.append(row_of(block))
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
