"""A range of a witness on a worker: what it runs, and what becomes of it."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rollup_node.node.system.exit_codes import version
from rollup_node.stages.protocol.types import BlockId
from rollup_node.tools.history.range_task import RangeFailed
from rollup_node.tools.witness import range_task
from rollup_node.tools.witness.packs import PackFolder, RangeResult, range_name
from rollup_node.tools.witness.range_task import MAX_RANGES, WitnessTask, plan_ranges, run_witness_range

RESULT = RangeResult(BlockId(1, bytes(32)), BlockId(2, bytes(32)), b"", b"")


def _task(folder: Path, known: str | None = None) -> WitnessTask:
    return WitnessTask(str(folder), 5, 9, known or version(), ("--l2", "http://x"))


def test_ranges_meet_and_end_where_the_last_does() -> None:
    assert plan_ranges(5, 12, 3) == [(5, 8), (8, 11), (11, 12)]
    assert plan_ranges(5, 6, 100) == [(5, 6)]
    with pytest.raises(ValueError, match="give a larger size"):
        plan_ranges(0, MAX_RANGES + 1, 1)


def test_a_range_is_run_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[list[str]] = []

    def run(prepared: Callable[[], list[str]], result: Path) -> bytes:
        ran.append(prepared())
        PackFolder(tmp_path).put(result.name, RESULT)
        return b""

    monkeypatch.setattr(range_task, "run_processes", run)
    assert run_witness_range(_task(tmp_path)) == RESULT == run_witness_range(_task(tmp_path))
    (command,) = ran
    assert command[:5] == [sys.executable, "-m", "rollup_node", "witness", "range"]
    assert command[5:11] == ["--from-l2", "5", "--to-l2", "9", "--packs", str(tmp_path)]
    assert command[-2:] == ["--l2", "http://x"]


def test_a_range_that_cannot_run_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RangeFailed, match=r"the worker has version .*, the run v0: install the same version"):
        run_witness_range(_task(tmp_path, "v0"))
    with pytest.raises(RangeFailed, match="does not see the folder"):
        run_witness_range(_task(tmp_path / "none"))
    (tmp_path / range_name(5, 9)).write_bytes(b"cut")
    with pytest.raises(RangeFailed, match="the pack of the range 5 to 9 is damaged"):
        run_witness_range(_task(tmp_path))
