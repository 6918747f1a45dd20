"""The task of a range: its processes, what becomes of their rows, and how it fails."""

import sys
from pathlib import Path

import msgspec
import pytest

from rollup_node.node.system.exit_codes import version
from rollup_node.tools.history import range_task
from rollup_node.tools.history.derivation_stage import RangeResult
from rollup_node.tools.history.folder import HistoryFolder, RunFile
from rollup_node.tools.history.manifest import RunConfig
from rollup_node.tools.history.range_task import ATTEMPTS, RangeFailed, RangeTask, run_range
from tests.support.chains.small_history import manifest_row, state_after

NAME = "l2_blocks/day=2024-01-01"


RUN = RunFile(RunConfig("v1", 1, "aa", 100, 10, 50, "jsonl", "engine", False), "local", 109)


@pytest.fixture(autouse=True)
def run_file(tmp_path: Path) -> None:
    HistoryFolder(tmp_path).open(RUN)


def _task(out: Path) -> RangeTask:
    return RangeTask(str(out), 100, 109, RUN.config.digest, version(), "jsonl", ("--network", "x"), 50, 40)


def _programs(monkeypatch: pytest.MonkeyPatch, *programs: str) -> list[RangeTask]:
    """Run these Python programs, one an attempt, in place of the processes; `rows` is their first argument."""
    begun: list[RangeTask] = []

    def command(task: RangeTask, rows: Path) -> list[str]:
        begun.append(task)
        return [sys.executable, "-S", "-c", programs[min(len(begun), len(programs)) - 1], str(rows)]

    monkeypatch.setattr(range_task, "_command", command)
    return begun


def _writes() -> str:
    result = RangeResult(state_after(99), state_after(109), 20, {f"{NAME}.jsonl": 20})
    return f"""
import pathlib, sys
rows = pathlib.Path(sys.argv[1])
(rows / "l2_blocks").mkdir()
(rows / "{NAME}.jsonl").write_text("row\\n" * 20)
(rows / "range.json").write_bytes({msgspec.json.encode(result)!r})
"""


WARNS = """
import sys
print("t=1 lvl=warn process=l1 msg=x code=ARCHIVE-DAMAGED entry=a code=NONSENSE", file=sys.stderr)
print('{"lvl": "warn", "code": "L1-THROTTLED"}', file=sys.stderr)
"""
KILLED = "import os; os.kill(os.getpid(), 9)"


def test_the_rows_of_a_range_become_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = _programs(monkeypatch, KILLED, _writes())
    done = run_range(_task(tmp_path))
    assert len(begun) == 2, "killed processes are started again"
    known = manifest_row(100, 109)
    assert (done.start.l1, done.end.l1, done.l2_blocks) == (known.start.l1, known.end.l1, 20)
    folder = HistoryFolder(tmp_path)
    assert folder.manifests() == {"range-000000000100": done} and list(folder.file_problems(done)) == []
    assert [file.path for file in done.files] == [f"{NAME}/range-000000000100.jsonl"]
    assert list((tmp_path / ".partial").iterdir()) == []


@pytest.mark.parametrize(
    ("program", "text", "attempts"),
    [
        (KILLED, "its processes ended with exit code -9", ATTEMPTS),
        ("import sys; print('rollup-node: L1 is gone\\nt=1 lvl=warn', file=sys.stderr); sys.exit(1)", "L1 is gone", 1),
        ("import sys; print('rollup-node: warning: old', file=sys.stderr); sys.exit(1)", "exit code 1", 1),
        ("", "its processes ended with exit code 0", ATTEMPTS),
    ],
)
def test_a_range_that_fails_leaves_what_was_there(
    program: str, text: str, attempts: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _programs(monkeypatch, _writes())
    before = run_range(_task(tmp_path))
    begun = _programs(monkeypatch, program)
    with pytest.raises(RangeFailed, match=text):
        run_range(_task(tmp_path))
    assert len(begun) == attempts
    assert HistoryFolder(tmp_path).manifests() == {"range-000000000100": before}
    assert list((tmp_path / ".partial").iterdir()) == []


def test_a_worker_of_another_version_and_a_disk_that_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RangeFailed, match="install the same version"):
        run_range(msgspec.structs.replace(_task(tmp_path), version="v0"))
    _programs(monkeypatch, _writes())
    (tmp_path / "l2_blocks").write_text("a file where a folder is needed")
    with pytest.raises(RangeFailed, match="L1 blocks 100 to 109"):
        run_range(_task(tmp_path))
    assert HistoryFolder(tmp_path).manifests() == {}


def test_a_worker_that_does_not_see_the_folder_writes_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = _programs(monkeypatch, _writes())
    elsewhere = tmp_path / "elsewhere"
    for task in (_task(elsewhere), msgspec.structs.replace(_task(tmp_path), config="of another run")):
        with pytest.raises(RangeFailed, match=r"does not see the run in .*: all workers need the folder under the"):
            run_range(task)
    assert not elsewhere.exists() and begun == []


def test_a_worker_without_arrow_says_so_before_it_derives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = _programs(monkeypatch, _writes())
    monkeypatch.setattr(range_task, "find_spec", lambda name: None)
    with pytest.raises(RangeFailed, match="the worker lacks the package pyarrow: install"):
        run_range(msgspec.structs.replace(_task(tmp_path), form="parquet"))
    assert begun == [] and run_range(_task(tmp_path)).first == 100


def test_a_long_log_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Codes are those of its beginning, the error is that of its end."""
    _programs(monkeypatch, WARNS + "print('x' * 3_000_000, file=sys.stderr)\n" + _writes())
    assert run_range(_task(tmp_path)).warnings == ("ARCHIVE-DAMAGED", "L1-THROTTLED")
    error = "import sys; print('x' * 3_000_000, '\\nrollup-node: L1 is gone', file=sys.stderr); sys.exit(1)"
    _programs(monkeypatch, error)
    with pytest.raises(RangeFailed, match="L1 is gone"):
        run_range(_task(tmp_path))


def test_what_a_range_waits_for_is_said_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    waits = "import sys; print('rollup-node: waiting for 15s: L1 block 6: error -32000', file=sys.stderr)\n"
    _programs(monkeypatch, waits + _writes())
    run_range(_task(tmp_path))
    assert capsys.readouterr().err == "rollup-node: waiting for 15s: L1 block 6: error -32000\n"
