"""The commands of `tools/chaos`."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rollup_node.tools.devnet.child_programs import ProgramExited
from rollup_node.tools.devnet.settings import DevnetSettings
from rollup_node.tools.devnet.soak import cli, fault_runs
from rollup_node.tools.devnet.soak.cli import TABLE
from rollup_node.tools.devnet.soak.fault_runs import SCENARIOS, _order
from rollup_node.tools.devnet.soak.lanes import Kind
from rollup_node.tools.devnet.soak.report import ActionDone, Line, RunEnded, RunStarted, encode, marks
from rollup_node.tools.devnet.soak.run import SoakSettings
from rollup_node.tools.faults.scenario import Event, Scenario, parse_scenarios
from rollup_node.tools.faults.verdict import Observation, Verdict, evaluate

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


def test_the_order_follows_from_the_seed_and_the_time_is_filled() -> None:
    scenarios = parse_scenarios(SCENARIOS.read_text())[:10]
    assert _order(scenarios, 1, None) == _order(scenarios, 1, None) != _order(scenarios, 2, None)
    names = {scenario.name for scenario in scenarios}
    assert {item.name for item in _order(scenarios, 1, None)} == names
    repeated = _order(scenarios, 1, 3600.0)
    assert sum(item.seconds for item in repeated) > 3600 and {item.name for item in repeated} == names
    once = [Scenario("a", events=(Event(reorg=64, across=True),)), Scenario("b", events=(Event(kill="l1"),))]
    assert {*_order(once, 1, 3600.0)} == {*once} and len(_order(once, 1, 3600.0)) == 2, "a fork activates once"


def test_scenarios_that_cannot_run_here_are_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LIBFAKETIME", "/missing")
    assert main(["run", "--only", "clock-", "--data-dir", str(tmp_path / "data")]) == 0
    shown = capsys.readouterr().out
    assert "skipped clock-ahead-5-minutes: libfaketime.so.1 is not installed" in shown
    assert "0 scenarios, 0 failed" in shown


@pytest.mark.parametrize("end", [ProgramExited("l1 ended"), KeyboardInterrupt()])
def test_an_early_end_loses_no_verdict(
    end: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first network ends after one scenario: a program's end is that of its network, a signal that of the run."""
    networks = list[tuple[str, ...]]()

    def run(
        settings: DevnetSettings, root: Path, view: object, started: float, on_verdict: Callable[[Verdict], None]
    ) -> object:
        networks.append(tuple(scenario.name for scenario in settings.scenarios))
        on_verdict(evaluate(settings.scenarios[0], Observation()))
        raise end

    monkeypatch.setattr(fault_runs, "run", run)
    words = ["run", "--only", "kill-l1", "--only", "da-reset", "--json", "--data-dir", str(tmp_path / "data")]
    assert main(words) != 0
    shown = capsys.readouterr()
    result = json.loads(shown.out)
    assert result["equal"] is None and len(networks) == (2 if isinstance(end, ProgramExited) else 1)
    assert [item["name"] for item in result["scenarios"]] == [names[0] for names in networks]
    assert ("error: the network ended: l1 ended" in shown.err) == isinstance(end, ProgramExited)
