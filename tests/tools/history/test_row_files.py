"""Rows in files of JSON lines."""

import json
from pathlib import Path

import pytest

from rollup_node.tools.history.ranges import TABLES_VERSION
from rollup_node.tools.history.row_files import METADATA, RowFiles, arrow_schema, write_parquet
from rollup_node.tools.history.tables import COLUMNS, Table


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


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "drops").write_text("")
    with pytest.raises(OSError):
        RowFiles(tmp_path).add(Table.DROPS, 10, {})


parquet = pytest.importorskip("pyarrow.parquet")


def test_rows_come_back_with_their_types(tmp_path: Path) -> None:
    source = tmp_path / "rows"
    row = {"l1_number": 5, "l1_hash": "0xaa", "l1_time": 7, "index": 0, "transaction": None, "type": 3}
    row |= {"sender": "0xbb", "is_batcher": True, "bytes": 9, "blobs": ["0x01", "0x02"]}
    source.write_text(json.dumps(row) + "\n" + json.dumps(row | {"blobs": []}) + "\n")
    write_parquet(Table.L1_INPUTS, source, tmp_path / "a")
    write_parquet(Table.L1_INPUTS, source, tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    found = parquet.read_table(tmp_path / "a")
    assert found.to_pylist() == [row, row | {"blobs": []}]
    assert found.schema.metadata[METADATA.encode()] == str(TABLES_VERSION).encode()
    assert parquet.ParquetFile(tmp_path / "a").metadata.row_group(0).column(0).compression == "ZSTD"


def test_each_table_has_a_schema() -> None:
    for table in Table:
        assert arrow_schema(table).names == list(COLUMNS[table])
