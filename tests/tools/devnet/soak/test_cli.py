"""The commands `tools/chaos soak` and `tools/chaos report`."""

from collections.abc import Callable
from pathlib import Path

import pytest

from rollup_node.tools.devnet.soak import cli
from rollup_node.tools.devnet.soak.cli import TABLE, main
from rollup_node.tools.devnet.soak.lanes import Kind
from rollup_node.tools.devnet.soak.report import ActionDone, Line, RunEnded, RunStarted, encode, marks
from rollup_node.tools.devnet.soak.run import SoakSettings

BEGIN, END = marks(TABLE)


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


@pytest.mark.parametrize(("problems", "equal", "code"), [((), True, 0), (("x",), True, 1), ((), False, 1)])
def test_three_runs_add_up(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    problems: tuple[str, ...],
    equal: bool,
    code: int,
) -> None:
    value: list[SoakSettings] = []

    async def soak(settings: SoakSettings, root: Path, write: Callable[[Line], None], say: object) -> RunEnded:
        value.append(settings)
        write(started(settings.run))
        write(kill(settings.run))
        end = RunEnded(settings.run, settings.seconds, 10, equal, 1.0, {}, problems)
        write(end)
        return end

    monkeypatch.setattr(cli, "soak", soak)
    report = tmp_path / "soak.jsonl"
    for words in (["--hours", "1"], ["--hours", "1", "--seed", "7"], ["--hours", "0.5", "--minutes", "30"]):
        assert main(["soak", *words, "--report", str(report)]) == code
    assert [item.run for item in value] == ["1", "2", "3"] and value[1].seed == 7 and value[0].seed != value[2].seed
    printed = capsys.readouterr().out
    assert "| Time | 3.00 hours in 3 runs |" in printed and "| Kills | 3 |" in printed
    assert ("the same schedule: tools/chaos soak --seed 7 --nodes 4 --pause 9" in printed) == bool(code)
