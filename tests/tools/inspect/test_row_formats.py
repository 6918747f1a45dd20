"""Rows in each form: a header where the form has one, and values that no form breaks."""

import csv
import json

from rollup_node.tools.inspect.row_formats import Column, RowFormat, RowFormatter, RowLayout, shown_range, shown_time

LAYOUT = RowLayout(
    (Column("NUMBER", 6, right=True), Column("NAME", 4)),
    lambda values: (str(values["number"]), values["name"]),
    lambda values: f"number {values['number']}",
    ("number", "name", "parts", "absent"),
    lambda values: values | {"parts": ["a", "b"]},
)
ROWS = ({"number": 7, "name": "x"}, {"number": 123, "name": 'y,"z\n'})


def written(form: RowFormat) -> str:
    rows = RowFormatter(form, LAYOUT)
    return "".join(rows.row(values) for values in ROWS) + rows.end()


def test_each_form() -> None:
    assert written(RowFormat.TEXT) == "number 7\nnumber 123\n"
    assert written(RowFormat.TABLE).splitlines()[:2] == ["NUMBER  NAME", "     7  x"]
    assert [json.loads(line) for line in written(RowFormat.JSON).splitlines()] == list(ROWS)
    header, *records = csv.reader(written(RowFormat.CSV).splitlines(keepends=True))
    assert header == list(LAYOUT.fields)
    assert records == [["7", "x", "a b", ""], ["123", 'y,"z\n', "a b", ""]]


def test_only_csv_has_a_header_without_rows() -> None:
    ends = {form: RowFormatter(form, LAYOUT).end() for form in RowFormat}
    assert [form for form, end in ends.items() if end] == [RowFormat.CSV]
    assert ends[RowFormat.CSV] == "number,name,parts,absent\n"


def test_times_and_ranges_for_people() -> None:
    assert shown_time(1724784082) == "2024-08-27T18:41:22Z"
    assert shown_time(1724784082, " ") == "2024-08-27 18:41:22"
    assert shown_time((1 << 64) - 1) == f"{(1 << 64) - 1} s"
    assert (shown_range(7, 1), shown_range(7, 3)) == ("7", "7-9")
