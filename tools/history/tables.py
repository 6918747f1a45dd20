"""The tables of a history: their columns in order, by name and type, and the rows of its files."""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

import orjson

from rollup_node.node.options.errors import shown

Kind = Literal["int", "text", "texts", "bool"]


class Table(StrEnum):
    """The tables, by the name of their folder."""

    L1_INPUTS = "l1_inputs"
    FRAMES = "frames"
    CHANNELS = "channels"
    BATCHES = "batches"
    L2_BLOCKS = "l2_blocks"
    DROPS = "drops"
    SAFE_HEADS = "safe_heads"


_L1: dict[str, Kind] = {"l1_number": "int", "l1_hash": "text", "l1_time": "int"}
_L2: dict[str, Kind] = {
    "number": "int",
    "hash": "text",
    "parent_hash": "text",
    "time": "int",
    "origin_number": "int",
    "origin_hash": "text",
    "sequence_number": "int",
    "transactions": "int",
    "bytes": "int",
    "channel": "text",
}

COLUMNS: dict[Table, dict[str, Kind]] = {
    Table.L1_INPUTS: _L1
    | {
        "index": "int",
        "transaction": "text",
        "type": "int",
        "sender": "text",
        "is_batcher": "bool",
        "bytes": "int",
        "blobs": "texts",
    },
    Table.FRAMES: _L1
    | {
        "transaction": "text",
        "blob": "text",
        "item": "int",
        "index": "int",
        "channel": "text",
        "number": "int",
        "bytes": "int",
        "is_last": "bool",
    },
    Table.CHANNELS: _L1
    | {
        "channel": "text",
        "opened": "int",
        "bytes": "int",
        "frames": "int",
        "transactions": "texts",
    },
    Table.BATCHES: _L1
    | {
        "channel": "text",
        "index": "int",
        "kind": "text",
        "first_block": "int",
        "first_time": "int",
        "blocks": "int",
        "transactions": "int",
        "parent": "text",
    },
    Table.L2_BLOCKS: _L2 | _L1 | {"l1_transaction": "text"},
    Table.DROPS: _L1
    | {"index": "int", "effect": "text", "rule": "text", "reason": "text", "text": "text", "values": "text"},
    Table.SAFE_HEADS: _L1 | {"l2_number": "int", "l2_hash": "text"},
}
"""`text` columns hold hashes, addresses and ids as hex with 0x, and are null where there is none; times are seconds."""


def day_of(timestamp: int) -> str:
    """Return the UTC day of an L1 block, as the name of a partition: `1970-01-02`."""
    from datetime import UTC, datetime

    return datetime.fromtimestamp(min(timestamp, 253_402_300_799), UTC).strftime("%Y-%m-%d")


def partition(table: Table, timestamp: int) -> str:
    """Return the folder of a table's rows at an L1 block of this time."""
    return f"{table.value}/day={day_of(timestamp)}"


BATCH_ROWS = 16_384


def table_files(folder: Path, table: Table) -> list[Path]:
    """Return the files of a table in the order of their L1 days and ranges."""
    return sorted(
        path for path in (folder / table.value).glob("day=*/range-*") if path.suffix in (".jsonl", ".parquet")
    )


def rows(path: Path, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """Yield the values of these columns, row by row.

    Raises ValueError or OSError for a file that is unreadable, and ModuleNotFoundError for Parquet without pyarrow."""
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
