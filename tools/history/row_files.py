"""The rows of a range while it runs: a file of JSON lines for each table and L1 day."""

from pathlib import Path
from typing import Any, BinaryIO

import orjson

from rollup_node.tools.history.tables import Table, partition

BUFFER = 256 << 10


class RowFiles:
    """Appends rows in the order of L1 days. `counts` are the rows by file, whose name is relative to the folder and
    ends in .jsonl. At most one file of a table is open."""

    def __init__(self, folder: Path) -> None:
        self.counts: dict[str, int] = {}
        self._folder = folder
        self._open: dict[Table, tuple[str, BinaryIO]] = {}

    def add(self, table: Table, timestamp: int, row: dict[str, Any]) -> None:
        """Appends a row at an L1 block of this time. Raises OSError where the file cannot be written."""
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
        """Writes what is buffered. Raises OSError where that fails."""
        for _, file in self._open.values():
            file.close()
        self._open.clear()
