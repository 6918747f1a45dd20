"""The rows of a range: a file of JSON lines for each table and L1 day while it runs, then Parquet."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import orjson

from rollup_node.tools.history.ranges import TABLES_VERSION
from rollup_node.tools.history.tables import COLUMNS, Table, partition

if TYPE_CHECKING:
    import pyarrow

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

    found, wanted = pyarrow.parquet.read_schema(path), arrow_schema(table)
    version = (found.metadata or {}).get(METADATA.encode())
    if version != str(TABLES_VERSION).encode():
        raise ValueError(f"it is of version {(version or b'none').decode(errors='replace')} of the tables")
    if [(field.name, _plain(field.type)) for field in found] != [(field.name, _plain(field.type)) for field in wanted]:
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
