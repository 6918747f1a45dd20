"""The commands of `tools/chaos`."""

import json
import sys
from pathlib import Path

import pytest

from rollup_node.tools.devnet.soak import cli, fault_runs
from rollup_node.tools.devnet.soak.cli import TABLE
from rollup_node.tools.devnet.soak.fault_runs import SCENARIOS
from rollup_node.tools.devnet.soak.lanes import Kind
from rollup_node.tools.devnet.soak.report import ActionDone, RunStarted, encode, marks

BEGIN, END = marks(TABLE)


def main(words: list[str]) -> int:
    """As `tools/chaos` does."""
    return cli.main(words) if words[0] in ("soak", "report") else fault_runs.main(words)


def started(run: str) -> RunStarted:
    return RunStarted(run, 1.8e9, 5, 4, "0123456789", "2 cores", 9.0)


def kill(run: str) -> ActionDone:
    return ActionDone(run, 1.0, "verifier", Kind.KILL, "rpc", 0.0, 0, 2.0)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["soak"], "--hours or --minutes: give a time above 0"),
        (["soak", "--minutes", "-1"], "--hours or --minutes: give a time above 0"),
        (["soak", "--hours", "nan"], "--hours or --minutes: give a time above 0"),
        (["soak", "--minutes", "1", "--nodes", "2"], "--nodes: must be 3 to 5, not 2"),
        (["soak", "--minutes", "1", "--pause", "1"], "--pause: must be 4 to 3600 seconds, not 1"),
        (["soak", "--minutes", "1", "--log-level", "loud"], "--log-level loud: must be "),
        (["report", "/missing"], "/missing: No such file or directory"),
        (["run", "--only", "nothing"], "no scenario's name begins with 'nothing'"),
        (["run", "--file", "/missing"], "/missing: No such file or directory"),
        (["list", "--file", sys.executable], ""),
        (["run", "--seed", "1", "--data-dir", str(SCENARIOS.parent)], "--data-dir "),
    ],
)
def test_what_cannot_be_used(words: list[str], error: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 1
    assert f"error: {error}" in capsys.readouterr().err


def test_the_report_is_printed_and_written_into_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, page = tmp_path / "soak.jsonl", tmp_path / "page.md"
    path.write_bytes(encode(started("1")) + encode(kill("1")))
    page.write_text(f"# Title\n{BEGIN}\nold\n{END}\ntext\n")
    assert main(["report", str(path), "--page", str(page)]) == 0
    printed = capsys.readouterr().out
    assert "| Kills | 1 |" in printed
    assert page.read_text() == f"# Title\n{BEGIN}\n{printed}{END}\ntext\n"
    page.write_text("# Title\n")
    assert main(["report", str(path), "--page", str(page)]) == 1
    path.write_text("nonsense\n")
    assert main(["report", str(path)]) == 1
    assert f"error: {path}: line 1: " in capsys.readouterr().err


def test_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--only", "kill-"]) == 0
    assert capsys.readouterr().out.splitlines()[0].split() == ["kill-l1", "F56"]
    assert main(["list"]) == 0
    assert len(capsys.readouterr().out.splitlines()) >= 150


def test_the_table_of_results_goes_into_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = {"name": "l1-reset", "cases": ["F5"], "passed": True, "recovered_after_s": 1.5, "memory_mb": 180}
    run = {"seed": 7, "equal": True, "commit": "c", "machine": "m", "load": 2.0, "minutes": 1.0, "scenarios": [result]}
    file, page = tmp_path / "results.json", tmp_path / "page.md"
    file.write_text(f"{json.dumps(run)}\n\n{json.dumps(run)}\n")
    first, last = marks("scenarios")
    page.write_text(f"# Title\n{first}\n{last}\n")
    assert main(["table", str(file), "--page", str(page)]) == 0
    printed = capsys.readouterr().out
    assert "| l1-reset | F5 | 2 of 2 | 1.5 s | 1.5 s | 180 MB |" in printed
    assert page.read_text() == f"# Title\n{first}\n{printed}{last}\n"
    page.write_text("# Title\n")
    assert main(["table", str(file), "--page", str(page)]) == 1
    assert "error: --page: it has no lines" in capsys.readouterr().err
    file.write_text("nonsense\n")
    assert main(["table", str(file)]) == 1
    assert f"error: {file}: not the output of" in capsys.readouterr().err


def test_scenarios_that_cannot_run_here_are_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LIBFAKETIME", "/missing")
    assert main(["run", "--only", "clock-", "--data-dir", str(tmp_path / "data")]) == 0
    shown = capsys.readouterr().out
    assert "skipped clock-ahead-5-minutes: libfaketime.so.1 is not installed" in shown
    assert "0 scenarios, 0 failed" in shown
