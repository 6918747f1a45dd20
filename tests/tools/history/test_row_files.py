"""Rows in files of JSON lines."""

import json
from pathlib import Path

import pytest

from rollup_node.tools.history.row_files import RowFiles
from rollup_node.tools.history.tables import Table


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
