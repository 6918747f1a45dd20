"""The tables: partitions, and columns that name the L1 block."""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from rollup_node.tools.history.manifest import TABLES_VERSION
from rollup_node.tools.history.tables import (
    METADATA,
    Table,
    day_of,
    partition,
    rows,
    write_parquet,
)

pytestmark = pytest.mark.skipif(find_spec("pyarrow") is None, reason="pyarrow is not installed")


def test_rows_are_partitioned_by_the_utc_day_of_their_l1_block() -> None:
    days = {0: "1970-01-01", 86_399: "1970-01-01", 86_400: "1970-01-02", 1_724_785_044: "2024-08-27"}
    assert {time: day_of(time) for time in days} == days
    assert partition(Table.DROPS, 1_724_785_044) == "drops/day=2024-08-27"
    assert day_of(1 << 63) == "9999-12-31"


ROW = {"l1_number": 1, "l1_hash": "0x01", "l1_time": 2, "l2_number": 3, "l2_hash": None}


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
