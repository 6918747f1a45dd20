"""The tables of a history: their columns in order, by name and type, and the rows of its files."""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

import orjson

from rollup_node.node.options.errors import shown
from rollup_node.node.options.given_files import regular_file
from rollup_node.tools.history.manifest import TABLES_VERSION

if TYPE_CHECKING:
    import pyarrow

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
        with regular_file(path) as lines:
            for line in lines:
                row = orjson.loads(line)
                if not isinstance(row, dict):
                    raise ValueError(f"a line is no object: {shown(line[:80].decode('utf-8', 'replace'))}")
                yield tuple(row.get(name) for name in columns)
        return
    import pyarrow.parquet

    try:
        with regular_file(path) as source, pyarrow.parquet.ParquetFile(source) as file:
            for batch in file.iter_batches(BATCH_ROWS, columns=list(columns)):
                yield from zip(*(batch.column(name).to_pylist() for name in columns), strict=True)
    except (pyarrow.ArrowException, KeyError) as error:
        raise ValueError(str(error)) from None


BUFFER = 256 << 10


class RowFiles:
    """Appends rows in the order of L1 days.

    `counts` are the rows by file, whose name is relative to the folder and ends in .jsonl. At most one file of a
    table is open."""

    def __init__(self, folder: Path) -> None:
        self.counts: dict[str, int] = {}
        self._folder = folder
        self._open: dict[Table, tuple[str, BinaryIO]] = {}

    def add(self, table: Table, timestamp: int, row: dict[str, Any]) -> None:
        """Append a row at an L1 block of this time. Raises OSError where the file cannot be written."""
        name = f"{partition(table, timestamp)}.jsonl"
        opened = self._open.get(table)
        if opened is None or opened[0] != name:
            if opened is not None:
                opened[1].close()
            path = self._folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            opened = self._open[table] = name, path.open("ab", buffering=BUFFER)
        opened[1].write(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))
        self.counts[name] = self.counts.get(name, 0) + 1

    def close(self) -> None:
        """Write what is buffered. Raises OSError where that fails."""
        for _, file in self._open.values():
            file.close()
        self._open.clear()


READ_BYTES = 4 << 20
METADATA = "rollup_node.tables"


def arrow_schema(table: Table) -> "pyarrow.Schema":
    """Return the schema of a table."""
    import pyarrow

    kinds: dict[str, Any] = {
        "int": pyarrow.int64(),
        "text": pyarrow.string(),
        "texts": pyarrow.list_(pyarrow.string()),
        "bool": pyarrow.bool_(),
    }
    fields = [pyarrow.field(name, kinds[kind]) for name, kind in COLUMNS[table].items()]
    return pyarrow.schema(fields, metadata={METADATA: str(TABLES_VERSION)})


def check_schema(table: Table, path: Path) -> None:
    """Raise ValueError for a file with other columns, or of another version of the tables."""
    import pyarrow.parquet

    with regular_file(path) as file:
        result, wanted = pyarrow.parquet.read_schema(file), arrow_schema(table)
    version = (result.metadata or {}).get(METADATA.encode())
    if version != str(TABLES_VERSION).encode():
        raise ValueError(f"it is of version {(version or b'none').decode(errors='replace')} of the tables")
    if [(field.name, _plain(field.type)) for field in result] != [(field.name, _plain(field.type)) for field in wanted]:
        raise ValueError(f"its columns are not those of version {TABLES_VERSION} of the tables")


def _plain(kind: "pyarrow.DataType") -> Any:
    """Return a type without the name that Parquet gives to the values of a list."""
    return ("list", kind.value_type) if hasattr(kind, "value_field") else kind


def write_parquet(table: Table, source: Path, target: Path) -> None:
    """Write the rows of a file of JSON lines, a piece of a few MB at a time. Raises OSError where the disk refuses."""
    import pyarrow.json
    import pyarrow.parquet

    schema = arrow_schema(table)
    reading = pyarrow.json.ReadOptions(use_threads=False, block_size=READ_BYTES)
    parsing = pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error")
    with (
        pyarrow.json.open_json(source, read_options=reading, parse_options=parsing) as rows,
        pyarrow.parquet.ParquetWriter(target, schema, compression="zstd") as writer,
    ):
        for batch in rows:
            writer.write_batch(batch.cast(schema))
