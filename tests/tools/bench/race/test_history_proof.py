"""What the proof of histories compares; the tables themselves are those of tests/tools/commands/test_history_run.py."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rollup_node.tools.bench.race import history_proof
from rollup_node.tools.bench.race.history import Run
from rollup_node.tools.history.tables import Table

pyarrow = pytest.importorskip("pyarrow")
from pyarrow import parquet  # noqa: E402

BLOCKS = ["0x01", "0x02"]


@contextmanager
def nothing(*_: object) -> Iterator[None]:
    yield


def write(out: Path, workers: int, *, hashes: list[str], drops: int = 1) -> None:
    for table, columns in ((Table.L2_BLOCKS, {"hash": hashes}), (Table.DROPS, {"rule": ["P5"] * drops})):
        folder = out / table.value / "day=2024-01-01"
        folder.mkdir(parents=True)
        parquet.write_table(pyarrow.table(columns), folder / "range-000000000001.parquet")


@pytest.mark.parametrize(
    ("histories", "code", "line"),
    [
        ({1: {}, 2: {}}, 0, "proved"),
        ({1: {}, 2: {"drops": 2}}, 1, "NOT PROVED: other tables by 2 workers than by 1: drops/day=2024-01-01/range"),
        ({1: {"hashes": ["0x01"]}}, 1, "NOT PROVED: the history by 1 workers has other L2 blocks than the chain"),
    ],
)
def test_differences_are_named(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    histories: dict[int, dict[str, Any]],
    code: int,
    line: str,
) -> None:
    def history(_: object, out: Path, _size: int, workers: int) -> Run:
        write(out, workers, **{"hashes": BLOCKS, **histories[workers]})
        return Run(1.0, 0.0)

    facts = SimpleNamespace(l2_hashes=["0x00", *BLOCKS])
    monkeypatch.setattr(history_proof, "prepare", lambda *_: facts)
    monkeypatch.setattr(history_proof, "CourseFiles", lambda _: SimpleNamespace(close=lambda: None))
    monkeypatch.setattr(history_proof, "run_once", lambda *_: SimpleNamespace(blocks_per_second=1.0))
    monkeypatch.setattr(history_proof, "served", nothing)
    monkeypatch.setattr(history_proof, "history", history)
    monkeypatch.setattr(history_proof, "run_command", lambda *_: None)
    assert history_proof.main(["--workers", *map(str, histories)]) == code
    assert capsys.readouterr().out.splitlines()[-1].startswith(line)
