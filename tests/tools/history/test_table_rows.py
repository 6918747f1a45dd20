"""Rows that are read back, of both forms."""

import json
from pathlib import Path

import pytest

from rollup_node.tools.history.parquet_files import write_parquet
from rollup_node.tools.history.table_rows import rows, table_files
from rollup_node.tools.history.tables import Table


def test_both_forms_give_the_same(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    day = tmp_path / "safe_heads" / "day=2024-01-01"
    day.mkdir(parents=True)
    row = {"l1_number": 1, "l1_hash": "0x01", "l1_time": 2, "l2_number": 3, "l2_hash": None}
    (day / "range-1.jsonl").write_text("".join(json.dumps(row | {"l1_number": number}) + "\n" for number in range(3)))
    write_parquet(Table.SAFE_HEADS, day / "range-1.jsonl", day / "range-2.parquet")
    first, second = table_files(tmp_path, Table.SAFE_HEADS)
    expected = [(number, None) for number in range(3)]
    assert list(rows(first, ("l1_number", "l2_hash"))) == list(rows(second, ("l1_number", "l2_hash"))) == expected
    assert table_files(tmp_path, Table.DROPS) == []


@pytest.mark.parametrize("line", ["{", "[1]", "5", "null"])
def test_a_line_that_is_no_row(tmp_path: Path, line: str) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(line)
    with pytest.raises(ValueError):
        list(rows(path, ("a",)))


def test_parquet_that_is_damaged_or_of_another_table(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    source, path = tmp_path / "x.jsonl", tmp_path / "x.parquet"
    source.write_text(json.dumps({"l1_number": 1, "l1_hash": "0x01", "l1_time": 2, "l2_number": 3, "l2_hash": None}))
    write_parquet(Table.SAFE_HEADS, source, path)
    with pytest.raises(ValueError, match="rule"):
        list(rows(path, ("rule",)))
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(ValueError):
        list(rows(path, ("l1_number",)))
