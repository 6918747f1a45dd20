"""The forms in which the commands write their results, and how they are written.

JSON, CSV, lines of text, and a table for a terminal of 100 columns. Every row begins as the same JSON object."""

import asyncio
import csv
import enum
import io
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from rollup_node.stages.io.task import EXIT_REPORTED, ExitRequested
from rollup_node.stages.protocol.config import utc_time


async def write_text(descriptor: int, text: str) -> None:
    """Write all of `text`, however long the reader takes.

    Raises ExitRequested when the reader is gone or the device is full; the latter is reported on standard error."""
    try:
        if text:
            await asyncio.to_thread(write_all, descriptor, text.encode())
    except OSError as error:
        if not isinstance(error, BrokenPipeError):
            print(f"rollup-node: cannot write the results: {error.strerror}", file=sys.stderr)
        raise ExitRequested(EXIT_REPORTED) from None


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of `data`. Raises OSError."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


Values = dict[str, Any]
TABLE_WIDTH = 100
GAP = "  "


class RowFormat(enum.Enum):
    """How rows are written: `TEXT` without a header for programs that read lines, `TABLE` for people."""

    TEXT = "text"
    TABLE = "table"
    JSON = "json"
    CSV = "csv"


class Column(NamedTuple):
    """A column of a table; numbers are aligned to the right."""

    title: str
    width: int
    right: bool = False


class RowLayout(NamedTuple):
    """What rows of one kind look like.

    The columns of the table and the cells of a row, a row as a line of text, and the flat record with these `fields`
    that CSV has."""

    columns: tuple[Column, ...]
    cells: Callable[[Values], tuple[str, ...]]
    text: Callable[[Values], str]
    fields: tuple[str, ...]
    record: Callable[[Values], Mapping[str, Any]]


class RowFormatter:
    """Writes rows of one layout in one form; each text ends with a newline."""

    def __init__(self, form: RowFormat, layout: RowLayout) -> None:
        self._form, self._layout = form, layout
        self._begun = False

    def row(self, values: Values) -> str:
        """Return a row, after the header if it is the first one and the form has a header."""
        begin = "" if self._begun else self.header()
        self._begun = True
        return begin + self._row(values)

    def end(self) -> str:
        """Return what ends the rows: the names of CSV fields, if there were no rows."""
        return self.header() if self._form is RowFormat.CSV and not self._begun else ""

    def header(self) -> str:
        """Return the titles of a table, the names of CSV fields; empty for the other forms."""
        layout = self._layout
        if self._form is RowFormat.TABLE:
            return self._line(tuple(column.title for column in layout.columns))
        return _csv_line(layout.fields) if self._form is RowFormat.CSV else ""

    def _row(self, values: Values) -> str:
        if self._form is RowFormat.JSON:
            return orjson.dumps(values).decode() + "\n"
        if self._form is RowFormat.TABLE:
            return self._line(self._layout.cells(values))
        if self._form is RowFormat.CSV:
            record = self._layout.record(values)
            return _csv_line(tuple(_csv_value(record.get(field)) for field in self._layout.fields))
        return self._layout.text(values) + "\n"

    def _line(self, cells: tuple[str, ...]) -> str:
        columns = self._layout.columns
        pairs = zip(columns, cells, strict=True)
        aligned = (cell.rjust(item.width) if item.right else cell.ljust(item.width) for item, cell in pairs)
        return GAP.join(aligned).rstrip() + "\n"


def shown_time(seconds: int, separator: str = "T") -> str:
    """Return a time in Unix seconds for people, in UTC; beyond the calendar the seconds."""
    text = utc_time(seconds)
    return text if separator == "T" else text.replace("T", separator).removesuffix("Z")


def shown_range(first: int, count: int) -> str:
    """Consecutive block numbers: `7`, or `7-9`."""
    return str(first) if count <= 1 else f"{first}-{first + count - 1}"


def shown_hashes(hashes: Sequence[str]) -> str:
    """Return the first of several hashes in hex, shortened, and how many follow it: `0x01234567+2`; `-` without any."""
    return "-" if not hashes else hashes[0][:10] + (f"+{len(hashes) - 1}" if len(hashes) > 1 else "")


def _csv_value(value: Any) -> str:
    if value is None:
        return ""
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _csv_line(values: tuple[str, ...]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(values)
    return line.getvalue()
