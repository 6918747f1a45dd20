"""The command: results, exit codes and --prepare."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from rollup_node.tools.devnet import cli, settings
from rollup_node.tools.devnet.child_programs import ProgramExited
from rollup_node.tools.devnet.faults.report import ChaosReport
from rollup_node.tools.devnet.run import RunResult
from rollup_node.tools.devnet.settings import FAULTS, DevnetSettings
from rollup_node.tools.devnet.status import NoProgress, View

EQUAL = RunResult(31, 30, 26, True, 40.5, {"sequencer": []}, None, 12.3)


def run_with(monkeypatch: pytest.MonkeyPatch, outcome: RunResult | BaseException, *flags: str) -> int:
    """Return the exit code of the command when the run has this outcome."""

    def run(settings: DevnetSettings, root: Path, view: View, started: float) -> RunResult:
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    monkeypatch.setattr(cli, "run", run)
    return cli.main(flags)


def test_what_is_printed_of_a_run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_with(monkeypatch, EQUAL) == 0
    end = "safe 30, finalized 26; first safe block after 12.3 s, 40.5 s in all\n"
    assert capsys.readouterr().out == f"31 blocks, output roots equal on all nodes; {end}"
    assert run_with(monkeypatch, replace(EQUAL, output_roots_equal=False, first_difference=7)) == 1
    assert "output roots DIFFER first at block 7" in capsys.readouterr().out
    assert run_with(monkeypatch, EQUAL, "--json") == 0
    expected = {"blocks": 31, "safe": 30, "finalized": 26, "output_roots_equal": True, "seconds": 40.5}
    assert json.loads(capsys.readouterr().out) == {**expected, "processes": {"sequencer": []}}


@pytest.mark.parametrize(("signed_twice", "code"), [((), 0), ((7,), 1)])
def test_the_report_on_faults_decides_as_well(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], signed_twice: tuple[int, ...], code: int
) -> None:
    chaos = ChaosReport({"kill of the node": 2}, 2, 31, 31, signed_twice, (), (), 3.5)
    assert run_with(monkeypatch, replace(EQUAL, chaos=chaos)) == code
    assert capsys.readouterr().out.splitlines()[0] == "faults: 2 x kill of the node"
    assert run_with(monkeypatch, replace(EQUAL, chaos=chaos), "--json") == code
    assert json.loads(capsys.readouterr().out)["chaos"]["signed_twice"] == list(signed_twice)


@pytest.mark.parametrize(
    ("outcome", "flags", "line"),
    [
        (NoProgress("no new blocks"), (), "error: no new blocks"),
        (ProgramExited("batcher exited"), (), "error: batcher exited"),
        (PermissionError(13, "Permission denied", "/tmp/x"), (), "error: /tmp/x: Permission denied"),
        (OSError("no space"), (), "error: no space"),
        (EQUAL, ("--blocks", "0"), "error: --blocks: must be at least 1, not 0"),
        (EQUAL, ("--prepare",), "error: --prepare: give the --data-dir to write into"),
        (KeyboardInterrupt(), (), "interrupted before the output roots were compared"),
    ],
    ids=str,
)
def test_a_failure_is_one_line(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    outcome: RunResult | BaseException,
    flags: tuple[str, ...],
    line: str,
) -> None:
    assert run_with(monkeypatch, outcome, *flags) == (130 if isinstance(outcome, KeyboardInterrupt) else 1)
    assert capsys.readouterr() == ("", f"{line}\n")


def test_faults_need_a_checkout(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """As in a wheel, which has none of them."""
    monkeypatch.setattr(settings, "find_spec", lambda name: None if name == FAULTS else object())
    assert run_with(monkeypatch, EQUAL, "--faults", "scenarios.toml") == 1
    assert run_with(monkeypatch, EQUAL, "--chaos", "5", "--sequencers", "2", "--conductor") == 1
    end = "it needs a checkout of the repository; an installed package has no faults"
    assert capsys.readouterr().err.splitlines() == [f"error: --faults: {end}", f"error: --chaos: {end}"]


def test_prepare_writes_the_files_for_external_engines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = tmp_path / "net"
    assert cli.main(["--prepare", "--data-dir", str(directory)]) == 0
    assert {"l1-genesis.json", "l2-genesis.json", "jwt.txt", "l1-chain-config.json"} <= {
        path.name for path in directory.iterdir()
    }
    genesis = [json.loads((directory / f"{layer}-genesis.json").read_text()) for layer in ("l1", "l2")]
    assert genesis[0]["timestamp"] == genesis[1]["timestamp"]
    assert capsys.readouterr().out.startswith("wrote l1-genesis.json, l2-genesis.json and jwt.txt into ")


def test_the_forks_of_prepare_are_repeated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--data-dir", str(tmp_path / "net"), "--fork", "lagoon=9"]
    assert cli.main(["--prepare", *words]) == 0
    engine = "http://127.0.0.1:1,http://127.0.0.1:1"
    assert cli.main([*words[:2], "--sequencer-engine", engine, "--verifier-engine", engine]) == 1
    shown = capsys.readouterr().err
    assert "l2-genesis.json, which --prepare wrote, has other times of karst, lagoon: repeat its flags --fork" in shown


def test_an_installation_without_the_extra_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "PACKAGES", ("no_such_package",))
    assert cli.main(["--prepare", "--data-dir", str(tmp_path / "net")]) == 1
    assert capsys.readouterr().err == (
        "error: command devnet needs the package no_such_package: install rollup-node[devnet]\n"
    )
    assert not (tmp_path / "net").exists()
