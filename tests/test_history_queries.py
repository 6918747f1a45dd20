"""The queries of docs/history.md run, over a few rows of each table."""

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rollup_node.tools.history.manifest import ManifestRow, with_checksum
from rollup_node.tools.history.tables import COLUMNS, Table, write_parquet
from tests.support.chains.small_history import manifest_row

TEXT = (Path(__file__).parent.parent / "docs" / "history.md").read_text()
TABLES, _, MANIFEST = TEXT.partition("Column of `manifest`")
L1 = {"l1_number": 5, "l1_hash": "0xaa", "l1_time": 1_724_785_044}
TRANSACTION = "0x77"
ROWS: dict[Table, list[dict[str, Any]]] = {
    Table.L2_BLOCKS: [
        {"number": number, "time": 1_724_784_900 + number, "bytes": 10 * number, "channel": "0x01"}
        | {"l1_transaction": TRANSACTION}
        for number in (100, 101, 102)
    ],
    Table.DROPS: [{"rule": "PX5", "effect": "dropped", "reason": "span_past"}] * 2,
    Table.FRAMES: [{"transaction": TRANSACTION, "bytes": 3}, {"transaction": TRANSACTION, "bytes": 4}],
}


def _blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)


@pytest.fixture
def history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The working folder is a history."""
    pytest.importorskip("pyarrow")
    for table, rows in ROWS.items():
        day = tmp_path / table.value / "day=2024-08-27"
        day.mkdir(parents=True)
        source = tmp_path / "rows"
        source.write_text("".join(json.dumps(L1 | row) + "\n" for row in rows))
        write_parquet(table, source, day / "range-000000000005.parquet")
    (tmp_path / "manifest").mkdir()
    for item in (
        manifest_row(5, 14),
        msgspec.structs.replace(manifest_row(15, 24), repaired="0xaa", warnings=("L1-STALE",), seconds=4.0),
    ):
        (tmp_path / "manifest" / f"{item.range.name}.json").write_bytes(with_checksum(item))
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("history")
def test_those_of_duckdb() -> None:
    duckdb = pytest.importorskip("duckdb")
    result = [duckdb.sql(query).fetchall() for query in _blocks("sql")]
    days, transactions, drops, ranges = result
    assert [row[1:] for row in days] == [(3, 1010.0)] and str(days[0][0]) == "2024-08-27"
    assert transactions == [(TRANSACTION, 5, 43)]
    assert drops == [("PX5", "dropped", "span_past", 2)]
    assert ranges == [(5, 14, 20, 10.0, False), (15, 24, 20, 2.5, True)]


@pytest.mark.usefixtures("history")
def test_those_of_polars() -> None:
    pytest.importorskip("polars")
    results = []
    for program in _blocks("python"):
        names: dict[str, Any] = {}
        exec(program, names)
        results.append(names["result"].rows())
    assert results == [[("0x01", 3, 44)], [(TRANSACTION, 7)], [("l2_blocks", 40, 20)]]


def test_the_document_names_all_columns_of_manifests() -> None:
    lines = re.findall(
        r"^\| (`.*?) \| .*$", TEXT.partition("Column of `manifest`")[2].partition("\n\n")[0], re.MULTILINE
    )
    known = [name.strip("`") for line in lines for name in line.split(", ")]
    assert known == [*ManifestRow.__struct_fields__, "sha256"]


def test_the_document_names_all_tables_and_columns() -> None:
    for table, columns in COLUMNS.items():
        (line,) = re.findall(rf"^\| `{table.value}` \|.*$", TABLES, re.MULTILINE)
        assert all(f"`{name}`" in line for name in columns if not name.startswith("l1_") or name == "l1_transaction"), (
            line
        )
