"""The page of a history."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollup_node.node.system.exit_codes import SetupError
from rollup_node.tools.history import report
from rollup_node.tools.history.folder import HistoryFolder
from rollup_node.tools.history.manifest import Block, ManifestRow, OpenChannel, State
from rollup_node.tools.history.report import RangeRows, ReportValues, history_digest, history_problems, report_page
from rollup_node.tools.history.start_stage import progress
from rollup_node.tools.history.tables import Table
from tests.support.chains.small_history import (
    FIRST,
    files_of,
    forged,
    publish_range,
    run_file,
    small_history,
    state_after,
)


@pytest.fixture
def history_folder(tmp_path: Path) -> HistoryFolder:
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


def _changed(history_folder: HistoryFolder, table: Table, change: Callable[[list[Row]], list[Row]]) -> list[str]:
    """Return what is found where the rows of a table are changed before they are written."""
    row = publish_range(history_folder, 110, lambda item, rows: change(rows) if item is table else rows)
    return list(RangeRows(history_folder.path, row).problems())


def _in_the_middle(change: Callable[[Row], list[Row]], after: int = 0) -> Callable[[list[Row]], list[Row]]:
    """Change the first row of L1 block 114, or one after it."""

    def changed(rows: list[Row]) -> list[Row]:
        at = next(index for index, row in enumerate(rows) if row["l1_number"] == 114) + after
        return [*rows[:at], *change(rows[at]), *rows[at + 1 :]]

    return changed


@pytest.mark.parametrize("table", list(Table))
def test_a_row_that_is_missing_changed_or_twice_is_found(table: Table, history_folder: HistoryFolder) -> None:
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
        assert any(table.value in line for line in _changed(history_folder, table, change)), number
    for text, forge in FORGERIES[table].items():
        # The second of two L2 blocks, which have the same origin.
        forged_row = _in_the_middle(lambda row, forge=forge: [forge(row)], table is Table.L2_BLOCKS)  # type: ignore[misc]
        result = _changed(history_folder, table, forged_row)
        assert any(text in line and line.startswith(f"{table.value}: ") for line in result), (text, result)
    assert _changed(history_folder, table, lambda rows: rows) == []


def _values() -> ReportValues:
    values = ReportValues()
    values.add_blocks([(100, 90, 10), (100, 40, 30), (86_400, 86_390, 7)])
    values.add_batches([(100,), (100,), (86_400,)])
    values.add_drops([("PX5", "dropped", "span_past")] * 3 + [("V4", "dropped", "<script>")])
    return values


def test_days_are_summed_up() -> None:
    page = report_page("local", _values(), ["L1 blocks 5 to 9: not derived"])
    assert "3 L2 blocks, 3 batches, 4 drops on 2 days of L1" in page
    titles = re.findall(r"<title>(1970[^<]*)</title>", page)
    values = ((20.0, 7.0), (2.0, 1.0), (35.0, 10.0), (60.0, 10.0))
    assert titles == [f"1970-01-0{day}: {value}" for of_days in values for day, value in enumerate(of_days, 1)]
    assert "<td>PX5</td><td>dropped</td><td>span_past</td><td>3</td>" in page
    assert "<li>L1 blocks 5 to 9: not derived</li>" in page


def test_nothing_is_loaded_and_nothing_is_run() -> None:
    page = report_page("<b>", _values(), ["<i>"])
    assert not re.search(r"<script|<b>|<i>|https?://|src=|href=", page)
    for svg in re.findall(r"<svg.*?</svg>", page):
        ElementTree.fromstring(svg)


def test_an_empty_history() -> None:
    page = report_page("local", ReportValues(), [])
    assert page.count("<p>none</p>") == 6


def test_many_rules_and_gaps_are_cut() -> None:
    values = ReportValues()
    values.add_drops([(f"R{number}", "dropped", "x") for number in range(100)])
    page = report_page("local", values, [f"gap {number}" for number in range(300)])
    assert "<td>others</td><td></td><td></td><td>60</td>" in page and "<li>and 200 more</li>" in page


NAME = "range-000000000110"
"""The range in the middle."""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> HistoryFolder:
    return small_history(tmp_path_factory.mktemp("whole") / "out")


@pytest.fixture
def folder(written: HistoryFolder, tmp_path: Path) -> HistoryFolder:
    """Return a copy that may be damaged."""
    return HistoryFolder(shutil.copytree(written.path, tmp_path / "out"))


def _problems(folder: HistoryFolder) -> list[str]:
    return list(history_problems(folder, folder.existing()))


def test_a_whole_history_has_no_problem(written: HistoryFolder, tmp_path: Path) -> None:
    assert _problems(written) == []
    rows = progress(run_file().plan, written.manifests(), run_file().config.digest).done
    again = small_history(tmp_path / "again")
    publish_range(again, FIRST)
    known = progress(run_file().plan, again.manifests(), run_file().config.digest).done
    assert history_digest(rows) == history_digest(known) and len(history_digest(rows)) == 64


# --- manifests -----------------------------------------------------------------------------------------------------

Damage = Callable[[HistoryFolder, ManifestRow], object]


def _swap(folder: HistoryFolder, row: ManifestRow) -> None:
    paths = [folder.path / "manifest" / f"range-{first:012d}.json" for first in (110, 120)]
    texts = [path.read_bytes() for path in paths]
    for path, text in zip(paths, reversed(texts), strict=True):
        path.write_bytes(text)


def _edit(folder: HistoryFolder, row: ManifestRow) -> None:
    path = folder.path / "manifest" / f"{NAME}.json"
    path.write_bytes(path.read_bytes().replace(b'"seconds":1.0', b'"seconds":2.0'))


def _copy_elsewhere(folder: HistoryFolder, row: ManifestRow) -> None:
    day = folder.path / "drops" / "day=2024-08-28"
    shutil.copy(day / f"{NAME}.jsonl", day / "range-000000000910.jsonl")


def _move_to_another_day(folder: HistoryFolder, row: ManifestRow) -> None:
    old = next(file for file in row.files if file.path.startswith("drops/day=2024-08-28"))
    new = msgspec.structs.replace(old, path=old.path.replace("-28/", "-29/"))
    (folder.path / new.path).parent.mkdir()
    (folder.path / old.path).rename(folder.path / new.path)
    forged(folder, row, files=tuple(new if file is old else file for file in row.files))


def _elsewhere(folder: HistoryFolder, row: ManifestRow) -> None:
    forged(folder, row, files=(msgspec.structs.replace(row.files[0], path="../frames/x"), *row.files[1:]))


def _twice(folder: HistoryFolder, row: ManifestRow) -> None:
    forged(folder, row, files=(*row.files, row.files[0]))


def _state(number: int, **changes: Any) -> State:
    return msgspec.structs.replace(state_after(number), **changes)


def _forge(**changes: Any) -> Damage:
    return lambda folder, row: forged(folder, row, **changes)


def _remove(folder: HistoryFolder, row: ManifestRow) -> None:
    (folder.path / "manifest" / f"{NAME}.json").unlink()


def _remove_rows(folder: HistoryFolder, row: ManifestRow) -> None:
    (folder.path / row.files[0].path).unlink()


ALL = "last L1 block, safe head, L1 origin of the safe head differ"
CHANNEL = OpenChannel("aa", 115, (0,), "bb")
DAMAGED: list[tuple[Damage, tuple[str, ...]]] = [
    (_edit, ("unreadable (its SHA-256 is not that of what stands in it)", "L1 blocks 110 to 119: not derived")),
    (_remove, ("L1 blocks 110 to 119: not derived", f"{NAME}.jsonl: in no manifest")),
    (_remove_rows, (f"{NAME}.jsonl: No such file or directory",)),
    (_swap, (f"manifest/{NAME}.json: it is that of L1 blocks 120 to 129", "L1 blocks 110 to 119: not derived")),
    (_forge(config="of another"), (f"manifest/{NAME}.json: it is of another run", "110 to 119: not derived")),
    (_forge(last=117), (f"manifest/{NAME}.json: it ends at L1 block 117, its range at 119",)),
    (_forge(first=115), (f"manifest/{NAME}.json: it is that of L1 blocks 115 to 119",)),
    (_forge(files=()), ("the files have 0 L2 blocks, the range 20", f"{NAME}.jsonl: in no manifest")),
    (
        _forge(start=state_after(119)),
        ("the start state is that of L1 block 119", f"seam L1 109/110: {ALL}"),
    ),
    (_forge(end=state_after(109)), ("the end state is that of L1 block 109", f"seam L1 119/120: {ALL}")),
    (_forge(start=_state(109, system_config="x")), ("seam L1 109/110: system config differ",)),
    (_forge(end=_state(119, channels=(CHANNEL,))), ("seam L1 119/120: open channels differ",)),
    (
        _forge(start=_state(109, safe=Block(218, "0x00"))),
        ("seam L1 109/110: safe head differ", "l2_blocks: L2 block 219 has parent"),
    ),
    (_forge(end=_state(119, origin=Block(116, "0x00"))), ("seam L1 119/120", "l2_blocks: the last is 238")),
    (_forge(l2_blocks=19), ("19 L2 blocks lead from 218 to 238",)),
    (_forge(end=_state(119, safe=Block(238, None))), ("the L2 source gave no hash of block 238",)),
    (_elsewhere, ("its manifest has ../frames/x as a file of l1_inputs",)),
    (_twice, (f"L1 blocks 110 to 119: its manifest has l1_inputs/day=2024-08-28/{NAME}.jsonl as a file of l1_inputs",)),
    (_copy_elsewhere, ("drops/day=2024-08-28/range-000000000910.jsonl: in no manifest",)),
    (_move_to_another_day, (f"stands in drops/day=2024-08-29/{NAME}.jsonl",)),
]


@pytest.mark.parametrize(("damage", "texts"), DAMAGED)
def test_a_manifest_that_is_another(damage: Damage, texts: tuple[str, ...], folder: HistoryFolder) -> None:
    damage(folder, folder.manifests()[NAME])
    result = _problems(folder)
    assert [text for text in texts if not any(text in line for line in result)] == [], result


def test_a_range_of_another_run_is_none_of_this(folder: HistoryFolder, tmp_path: Path) -> None:
    """Its files and its manifest are those that the other run wrote."""
    other = HistoryFolder(tmp_path / "other")
    other.open(msgspec.structs.replace(run_file(), last=139))
    publish_range(other, 130)
    shutil.copytree(other.path, folder.path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("run.json"))
    assert "manifest/range-000000000130.json: the run has no range of L1 blocks 130 to 139" in _problems(folder)


@settings(max_examples=40, deadline=None)
@given(st.integers(0), st.integers(0), st.integers(1, 255))
def test_no_byte_can_be_changed(written: HistoryFolder, file: int, at: int, change: int) -> None:
    files = list(files_of(written))
    path = files[file % len(files)]
    whole = path.read_bytes()
    data = bytearray(whole)
    data[at % len(data)] ^= change
    path.write_bytes(data)
    try:
        assert _problems(written)
    except SetupError as error:
        assert path.name == "run.json" and "is unreadable" in str(error)
    finally:
        path.write_bytes(whole)


# --- Parquet -------------------------------------------------------------------------------------------------------


def test_parquet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    folder = small_history(tmp_path / "out", "parquet")
    assert _problems(folder) == []
    for number, table in enumerate(Table):
        path = folder.path / table.value / "day=2024-08-28" / f"{NAME}.parquet"
        whole = path.read_bytes()
        data = (whole[:40] + bytes([whole[40] ^ 1]) + whole[41:], whole[:-9], b"")[number % 3]
        path.write_bytes(data)
        result = _problems(folder)
        assert any(f"{path.name}: {len(data)} bytes with SHA-256" in line for line in result), result
        path.write_bytes(whole)
        rows = parquet.read_table(path)
        parquet.write_table(rows.drop_columns("l1_hash"), path)
        assert any(f"{table.value}: its rows are unreadable: its columns are not" in line for line in _problems(folder))
        parquet.write_table(rows.replace_schema_metadata({"rollup_node.tables": "7"}), path)
        assert any("unreadable: it is of version 7 of the tables" in line for line in _problems(folder))
        path.write_bytes(whole)
    assert _problems(folder) == []

    def missing(*_: object) -> None:
        raise ModuleNotFoundError(name="pyarrow")

    monkeypatch.setattr(report, "check_schema", missing)
    with pytest.raises(SetupError, match=r"need the package pyarrow: install it with: pip install"):
        _problems(folder)
