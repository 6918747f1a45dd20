"""Rows that their manifest agrees with, and that contradict other rows of their range."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rollup_node.tools.history.folder import HistoryFolder
from rollup_node.tools.history.row_checks import RangeRows
from rollup_node.tools.history.tables import Table
from tests.support.chains.small_history import publish_range, run_file


@pytest.fixture
def folder(tmp_path: Path) -> HistoryFolder:
    history_folder = HistoryFolder(tmp_path / "out")
    history_folder.open(run_file())
    return history_folder


Row = dict[str, Any]
FORGERIES: dict[Table, dict[str, Callable[[Row], Row]]] = {
    Table.L1_INPUTS: {
        "stands in place of row": lambda row: row | {"index": 9},
        "is 0x00": lambda row: row | {"l1_hash": "0x00"},
    },
    Table.FRAMES: {
        "has no transaction 0x00 of the batcher": lambda row: row | {"transaction": "0x00"},
        "frame 7 of item 0 follows": lambda row: row | {"index": 7},
    },
    Table.CHANNELS: {
        "has 4 frames with 120 bytes, the table frames 3 frames": lambda row: row | {"frames": 4},
        "has 3 frames with 121 bytes": lambda row: row | {"bytes": 121},
    },
    Table.BATCHES: {"the table channels has no 0x00": lambda row: row | {"channel": "0x00"}},
    Table.L2_BLOCKS: {
        "L2 block 5 follows": lambda row: row | {"number": 5},
        "has parent 0x00, block": lambda row: row | {"parent_hash": "0x00"},
        "has no hash": lambda row: row | {"hash": None},
        "has time 5, that before it": lambda row: row | {"time": 5},
        "has 99 0x00 as L1 origin": lambda row: row | {"origin_number": 99, "origin_hash": "0x00"},
        "is number 7 of L1 origin": lambda row: row | {"sequence_number": 7},
        "0x00 is not the last transaction of channel": lambda row: row | {"l1_transaction": "0x00"},
    },
    Table.DROPS: {"stands in place of row": lambda row: row | {"index": 4}},
    Table.SAFE_HEADS: {"; l2_blocks has": lambda row: row | {"l2_number": 7}},
}


def _changed(folder: HistoryFolder, table: Table, change: Callable[[list[Row]], list[Row]]) -> list[str]:
    """Return what is found where the rows of a table are changed before they are written."""
    row = publish_range(folder, 110, lambda item, rows: change(rows) if item is table else rows)
    return list(RangeRows(folder.path, row).problems())


def _in_the_middle(change: Callable[[Row], list[Row]], after: int = 0) -> Callable[[list[Row]], list[Row]]:
    """Change the first row of L1 block 114, or one after it."""

    def changed(rows: list[Row]) -> list[Row]:
        at = next(index for index, row in enumerate(rows) if row["l1_number"] == 114) + after
        return [*rows[:at], *change(rows[at]), *rows[at + 1 :]]

    return changed


@pytest.mark.parametrize("table", list(Table))
def test_a_row_that_is_missing_changed_or_twice_is_found(table: Table, folder: HistoryFolder) -> None:
    changes: list[Callable[[list[Row]], list[Row]]] = [
        lambda rows: rows[::-1],
        _in_the_middle(lambda row: []),
        _in_the_middle(lambda row: [row, row]),
        _in_the_middle(lambda row: [row | {"l1_time": 5}]),
        _in_the_middle(lambda row: [row | {"l1_number": 99}]),
        _in_the_middle(lambda row: [row | {"l1_number": "x"}]),
        _in_the_middle(lambda row: [row | {"l1_number": None}]),
    ]
    for number, change in enumerate(changes):
        assert any(table.value in line for line in _changed(folder, table, change)), number
    for text, forge in FORGERIES[table].items():
        # The second of two L2 blocks, which have the same origin.
        forged_row = _in_the_middle(lambda row, forge=forge: [forge(row)], table is Table.L2_BLOCKS)  # type: ignore[misc]
        result = _changed(folder, table, forged_row)
        assert any(text in line and line.startswith(f"{table.value}: ") for line in result), (text, result)
    assert _changed(folder, table, lambda rows: rows) == []
