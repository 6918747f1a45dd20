"""Reads the rows of a history's tables, of either form, some columns at a time."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson

from rollup_node.node.options.errors import shown
from rollup_node.tools.history.tables import Table

BATCH_ROWS = 16_384


def table_files(folder: Path, table: Table) -> list[Path]:
    """The files of a table in the order of their L1 days and ranges."""
    return sorted(
        path for path in (folder / table.value).glob("day=*/range-*") if path.suffix in (".jsonl", ".parquet")
    )


def rows(path: Path, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """The values of these columns, row by row. Raises ValueError or OSError for a file that is unreadable, and
    ModuleNotFoundError for Parquet without pyarrow."""
    if path.suffix == ".jsonl":
        with path.open("rb") as lines:
            for line in lines:
                row = orjson.loads(line)
                if not isinstance(row, dict):
                    raise ValueError(f"a line is no object: {shown(line[:80].decode('utf-8', 'replace'))}")
                yield tuple(row.get(name) for name in columns)
        return
    import pyarrow.parquet

    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(BATCH_ROWS, columns=list(columns)):
                yield from zip(*(batch.column(name).to_pylist() for name in columns), strict=True)
    except (pyarrow.ArrowException, KeyError) as error:
        raise ValueError(str(error)) from None
