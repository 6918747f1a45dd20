"""The tables: partitions, and columns that name the L1 block."""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from rollup_node.tools.history.manifest import TABLES_VERSION
from rollup_node.tools.history.tables import (
    COLUMNS,
    METADATA,
    RowFiles,
    Table,
    arrow_schema,
    day_of,
    partition,
    rows,
    table_files,
    write_parquet,
)

pytestmark = pytest.mark.skipif(find_spec("pyarrow") is None, reason="pyarrow is not installed")


def test_rows_are_partitioned_by_the_utc_day_of_their_l1_block() -> None:
    days = {0: "1970-01-01", 86_399: "1970-01-01", 86_400: "1970-01-02", 1_724_785_044: "2024-08-27"}
    assert {time: day_of(time) for time in days} == days
    assert partition(Table.DROPS, 1_724_785_044) == "drops/day=2024-08-27"
    assert day_of(1 << 63) == "9999-12-31"


@pytest.mark.parametrize("table", Table)
def test_each_table_has_columns_a_schema_and_its_l1_block(table: Table) -> None:
    assert {"l1_number", "l1_hash", "l1_time"} <= set(COLUMNS[table])
    assert arrow_schema(table).names == list(COLUMNS[table])


ROW = {"l1_number": 1, "l1_hash": "0x01", "l1_time": 2, "l2_number": 3, "l2_hash": None}


def test_both_forms_give_the_same(tmp_path: Path) -> None:
    day = tmp_path / "safe_heads" / "day=2024-01-01"
    day.mkdir(parents=True)
    (day / "range-1.jsonl").write_text("".join(json.dumps(ROW | {"l1_number": number}) + "\n" for number in range(3)))
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
    source, path = tmp_path / "x.jsonl", tmp_path / "x.parquet"
    source.write_text(json.dumps(ROW))
    write_parquet(Table.SAFE_HEADS, source, path)
    with pytest.raises(ValueError, match="rule"):
        list(rows(path, ("rule",)))
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(ValueError):
        list(rows(path, ("l1_number",)))


def test_a_file_for_each_table_and_day(tmp_path: Path) -> None:
    files = RowFiles(tmp_path)
    for time in (10, 20, 86_400):
        files.add(Table.DROPS, time, {"l1_time": time})
    files.add(Table.FRAMES, 10, {"l1_time": 10})
    files.close()
    assert files.counts == {
        "drops/day=1970-01-01.jsonl": 2,
        "drops/day=1970-01-02.jsonl": 1,
        "frames/day=1970-01-01.jsonl": 1,
    }
    lines = (tmp_path / "drops" / "day=1970-01-01.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [{"l1_time": 10}, {"l1_time": 20}]


def test_rows_come_back_with_their_types(tmp_path: Path) -> None:
    import pyarrow.parquet as parquet

    source = tmp_path / "rows"
    row = {"l1_number": 5, "l1_hash": "0xaa", "l1_time": 7, "index": 0, "transaction": None, "type": 3}
    row |= {"sender": "0xbb", "is_batcher": True, "bytes": 9, "blobs": ["0x01", "0x02"]}
    source.write_text(json.dumps(row) + "\n" + json.dumps(row | {"blobs": []}) + "\n")
    write_parquet(Table.L1_INPUTS, source, tmp_path / "a")
    write_parquet(Table.L1_INPUTS, source, tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    table = parquet.read_table(tmp_path / "a")
    assert table.to_pylist() == [row, row | {"blobs": []}]
    assert table.schema.metadata[METADATA.encode()] == str(TABLES_VERSION).encode()
    assert parquet.ParquetFile(tmp_path / "a").metadata.row_group(0).column(0).compression == "ZSTD"
