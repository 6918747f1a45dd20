"""Runs of the local network: results and exit codes of the command, when a run ends, and its data directory."""

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rollup_node.tools.devnet import cli, settings
from rollup_node.tools.devnet import run as runs
from rollup_node.tools.devnet.child_programs import ProgramExited
from rollup_node.tools.devnet.faults.report import ChaosReport
from rollup_node.tools.devnet.run import RunResult, UnusableDirectory, data_directory
from rollup_node.tools.devnet.settings import FAULTS, DevnetSettings, parse
from rollup_node.tools.devnet.status import LineView, NetworkStatus, NodeHeads, NoProgress, View

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
    assert cli.main(["--prepare", "--data-dir", str(directory), "--fork", "canyon=20", "--fork", "ecotone=30"]) == 0
    assert {"l1-genesis.json", "l2-genesis.json", "jwt.txt", "l1-chain-config.json"} <= {
        path.name for path in directory.iterdir()
    }
    genesis = [json.loads((directory / f"{layer}-genesis.json").read_text()) for layer in ("l1", "l2")]
    assert genesis[0]["timestamp"] == genesis[1]["timestamp"]
    config, start = genesis[1]["config"], int(genesis[1]["timestamp"], 16)
    names = ("regolith", "canyon", "shanghai", "ecotone", "cancun", "fjord", "prague")
    times = [0, start + 20, start + 20, start + 30, start + 30, None, None]
    assert [config.get(f"{name}Time") for name in names] == times, "also by the names that other engines read"
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


class ScriptedNetwork:
    """A network whose safe heads are as listed, then the last one; None while no node answers."""

    def __init__(self, *safe: int | None) -> None:
        self._safe = list(safe)
        self.polls = 0

    def check(self) -> None:
        """All programs run."""

    async def poll(self) -> NetworkStatus:
        self.polls += 1
        safe = self._safe.pop(0) if len(self._safe) > 1 else self._safe[0]
        heads = None if safe is None else NodeHeads(safe + 1, safe, 0)
        return NetworkStatus(nodes={"sequencer": heads, "verifier": heads})


@pytest.fixture(autouse=True)
def short_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "TICK_SECONDS", 0.001)


async def run_until_end(
    network: ScriptedNetwork, *flags: str, elapsed: float = 0.0, stopped: bool = False, faults: Callable[[], int] = int
) -> tuple[NodeHeads | None, float | None]:
    """Return the last heads and the time of the first safe block; the run began `elapsed` seconds ago."""
    stop, started = asyncio.Event(), time.monotonic() - elapsed
    if stopped:
        stop.set()
    async with asyncio.timeout(10):
        status, first_safe = await runs.wait_for_end(
            network.check, network.poll, faults, parse(flags), LineView(None, True), stop, started
        )
    return status.nodes["verifier"], first_safe


@pytest.mark.parametrize(
    ("safe", "flags", "options", "end"),
    [
        ((None, 0, 3, 4, 5, 6), "--blocks 5", {}, 5),
        ((None, None, 0, 7), "--duration 60", {"elapsed": 61}, 0),
        ((1, 2, 3, 4), "--blocks 2 --duration 60", {}, 2),
        ((9,), "", {"stopped": True}, 9),
    ],
    ids=["number of safe blocks", "duration once all nodes answer", "the first of both", "signal"],
)
async def test_the_end_of_a_run(safe: tuple[int | None, ...], flags: str, options: dict[str, Any], end: int) -> None:
    heads, first_safe = await run_until_end(ScriptedNetwork(*safe), *flags.split(), **options)
    assert heads == NodeHeads(end + 1, end, 0) and (first_safe is not None) == (end > 0)


async def test_a_run_without_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "FINAL_STATUS_SECONDS", 0.05)
    with pytest.raises(NoProgress, match="not all nodes report their heads"):
        await run_until_end(ScriptedNetwork(None), stopped=True)
    monkeypatch.setattr(runs, "STALL_SECONDS", 0.05)
    with pytest.raises(NoProgress, match=r"no new safe block for 0 s \(safe head 4\)"):
        await run_until_end(ScriptedNetwork(1, 2, 3, 4), "--blocks", "5")


async def test_without_a_batcher_safe_heads_may_stand_still(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "STALL_SECONDS", 0.0)
    heads, _ = await run_until_end(ScriptedNetwork(0, 0, 0, 0, 5), "--blocks", "5", "--no-batcher")
    assert heads == NodeHeads(6, 5, 0)


def test_a_given_directory_is_kept_and_locked(tmp_path: Path) -> None:
    value = tmp_path / "data"
    with data_directory(value):
        (value / "network.json").write_text("{}")
    with data_directory(value):
        assert not (value / "network.json").exists(), "chains start from genesis"


def test_a_directory_with_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.log").touch()
    with pytest.raises(UnusableDirectory, match="it contains other files"), data_directory(tmp_path):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["mine.log"]


def test_only_files_of_an_earlier_run_are_removed(tmp_path: Path) -> None:
    databases = ("verifier-peers.db-wal", "verifier-safe-heads.db", "sequencer-2-peers.db_signed_blocks-wal")
    logs = ("verifier-2.log", "conductor.log", "sequencer-2-engine.log", "sequencer-engine.log", "l1.log")
    removed = (*databases, *logs, "network.json")
    kept = ("lock", "jwt.txt", "l2-genesis.json", "op-reth.log", "mine.db")
    for name in (*removed, *kept):
        (tmp_path / name).touch()
    (tmp_path / "sequencer-2-engine-data").mkdir()
    (tmp_path / "sequencer-2-engine-data" / "accepted-blocks.jsonl").touch()
    with data_directory(tmp_path):
        assert sorted(path.name for path in tmp_path.iterdir()) == sorted(kept)


def test_a_directory_that_cannot_be_created_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    error = r"--data-dir .*/file: File exists; give another directory"
    with pytest.raises(UnusableDirectory, match=error), data_directory(tmp_path / "file"):
        pass
