"""Parquet files: the schema with its version, zstd, and the same bytes each time."""

import json
from pathlib import Path

import pytest

from rollup_node.tools.history.parquet_files import METADATA, arrow_schema, write_parquet
from rollup_node.tools.history.ranges import TABLES_VERSION
from rollup_node.tools.history.tables import COLUMNS, Table

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
