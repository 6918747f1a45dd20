"""`rollup-node witness` and `replay --witness` on recorded OP Sepolia data, which a thread serves."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rollup_node.node.system.exit_codes import ExitCode, version
from rollup_node.node.system.process_table import ProcessSpec
from rollup_node.stages.protocol.types import BlockId
from rollup_node.tools.commands import witness
from rollup_node.tools.commands.witness import (
    MAX_RANGES,
    WitnessTask,
    kept_stop_signals,
    plan_ranges,
    run_witness_range,
)
from rollup_node.tools.history.range_task import RangeFailed
from rollup_node.tools.witness.manifest import ROLLUP, read_manifest
from rollup_node.tools.witness.packs import PackFolder, RangeResult, base_name, range_name
from rollup_node.tools.witness.recording_stage import RecordingConfig
from tests.support.processes.cli import Cli
from tests.support.processes.leftovers import Leftovers
from tests.support.processes.programs import Program, wait_for

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

    monkeypatch.setattr(witness, "run_processes", run)
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


NODE = ("--network", "op-sepolia", "--l1", "http://127.0.0.1:9", "--l1.beacon", "http://127.0.0.1:9")


def test_a_core_has_a_worker_and_a_full_disk_is_no_bug(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    specs: list[ProcessSpec] = []

    def run(*values: object, compute: Callable[[ProcessSpec], ProcessSpec]) -> int:
        specs.append(compute(ProcessSpec("compute", "", None, copies=7)))
        return ExitCode.CRITICAL if len(specs) == 1 else ExitCode.INTERRUPTED

    monkeypatch.setattr(witness, "run", run)
    monkeypatch.setattr(witness, "usable_cores", lambda: 5)
    flags = ("--from-l2", "5", "--to-l2", "6", "--packs", str(tmp_path), "--l2", "http://127.0.0.1:9")
    assert cli("witness", "range", *flags, *NODE).code == ExitCode.SETUP
    assert cli("witness", "range", *flags, *NODE, "--workers", "2").code == ExitCode.INTERRUPTED
    assert [spec.copies for spec in specs] == [5, 2]
    assert specs[0].config == RecordingConfig(str(tmp_path), base_name(5, 6))


RANGE = ("--from-l2", "16491247", "--to-l2", "16491249")
WITHOUT_SOCKETS = """
import socket, sys
real = socket.socket
class Forbidden(real):
    def __init__(self, *values, **options):
        raise SystemExit("a socket was opened")
socket.socket = Forbidden
from rollup_node.node.cli import main
sys.exit(main(sys.argv[1:]))
"""


def _words(recorded: str, blocks: Path) -> tuple[str, ...]:
    return ("--network", "op-sepolia", "--l1", recorded, "--l1.beacon", recorded, "--l2-blocks", str(blocks))


def test_the_recorded_range_round_trips_through_a_witness(
    recorded: str, recording_folder: Path, leftovers: Leftovers, tmp_path: Path
) -> None:
    """Its replay opens no socket and has the rows of a replay of L1."""
    words, folder = _words(recorded, recording_folder / "l2_blocks.json"), tmp_path / "one"
    with Program(leftovers, "rollup_node", "witness", *words, *RANGE, "--out", str(folder)) as program:
        done = program.wait_for_exit()
    assert done.code == 0, done.err
    assert "preimages of L2 blocks 16491248 to 16491249 in " in done.out
    assert "agreed output root unknown: the L2 source cannot tell it" in done.out
    manifest = read_manifest(folder)
    assert (manifest.l1_base.number, manifest.l1_head.number) == (6582895, 6582952)
    assert [path.name for path in tmp_path.iterdir()] == ["one"], "nothing temporary is left"
    replayed = Program(leftovers, "rollup_node", "replay", *words, *RANGE, "--json").wait_for_exit()
    command = [sys.executable, "-c", WITHOUT_SOCKETS, "replay", "--witness", str(folder), "--json"]
    alone = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
    assert (alone.returncode, alone.stdout) == (0, replayed.out), alone.stderr
    assert f"follow from L1 block {manifest.l1_head.hash} and L2 block {manifest.safe_head.hash}" in alone.stderr


def test_a_damaged_manifest_is_named(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "witness.json").write_text("{")
    assert "witness.json is damaged" in cli.refused("replay", "--witness", tmp_path)


def test_a_range_that_fails_ends_the_run_and_leaves_nothing(
    recorded: str, recording_folder: Path, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(task: object) -> object:
        raise RangeFailed("L1 is gone")

    monkeypatch.setattr(witness, "run_witness_range", fails)
    words = (*_words(recorded, recording_folder / "l2_blocks.json"), *RANGE, "--range-size", "1")
    text = cli.refused("witness", *words, "--out", tmp_path / "out")
    assert text.endswith("L2 blocks 16491248 to 16491248: L1 is gone")
    assert not list(tmp_path.iterdir())


def test_an_interrupted_run_leaves_nothing(
    recorded: str, recording_folder: Path, leftovers: Leftovers, tmp_path: Path
) -> None:
    """While a range is derived, whose processes end as well."""
    words = (*_words(recorded, recording_folder / "l2_blocks.json"), *RANGE, "--out", str(tmp_path / "out"))
    with Program(leftovers, "rollup_node", "witness", *words) as program:
        wait_for(lambda: next(tmp_path.glob(".*.partial/packs/l1-*"), None), "the first pack")
        assert program.stop().code == 130
    assert not list(tmp_path.iterdir())


def test_a_disk_that_refuses_files_ends_the_run_in_a_line(
    recorded: str, recording_folder: Path, leftovers: Leftovers, tmp_path: Path
) -> None:
    words = (*_words(recorded, recording_folder / "l2_blocks.json"), *RANGE, "--out", str(tmp_path / "out"))
    with Program(leftovers, "rollup_node", "witness", *words) as program:
        store = wait_for(lambda: [path.parent for path in tmp_path.glob(".*.partial/store/kvformat")], "the store")[0]
        shutil.rmtree(store)
        store.write_bytes(b"")
        done = program.wait_for_exit()
    assert done.code == 1 and "Traceback" not in done.err
    assert done.err.rstrip().endswith(f"{store.parent}: Not a directory"), done.err
    assert not list(tmp_path.iterdir())


def test_kona_host_runs_offline_on_a_witness() -> None:
    """On one with the L2 half, which only an engine can give: it exits with 0 where the claimed root is right."""
    host, folder = shutil.which("kona-host"), os.environ.get("ROLLUP_NODE_WITNESS")
    if host is None or folder is None:
        pytest.skip("needs kona-host on PATH, and in ROLLUP_NODE_WITNESS a witness made with --execution")
    manifest = read_manifest(Path(folder))
    assert manifest.executes and manifest.agreed and manifest.claimed
    command = [host, "single", "--native", "--data-dir", folder, "--rollup-config-path", f"{folder}/{ROLLUP}"]
    command += ["--l1-head", manifest.l1_head.hash, "--agreed-l2-head-hash", manifest.safe_head.hash]
    command += ["--agreed-l2-output-root", manifest.agreed, "--claimed-l2-output-root", manifest.claimed]
    command += ["--claimed-l2-block-number", str(manifest.last)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0, done.stderr


def test_stop_signals_go_where_they_went_before() -> None:
    """Within also, where they are ignored from the start."""
    before = signal.getsignal(signal.SIGHUP), signal.getsignal(signal.SIGTERM)
    with kept_stop_signals(signal.SIG_IGN):
        assert signal.getsignal(signal.SIGHUP) is signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
        with pytest.raises(KeyboardInterrupt), kept_stop_signals(signal.default_int_handler):
            assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
            signal.signal(signal.SIGTERM, signal.default_int_handler)
            os.kill(os.getpid(), signal.SIGTERM)
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    assert (signal.getsignal(signal.SIGHUP), signal.getsignal(signal.SIGTERM)) == before
