"""`rollup-node witness range`: its flags. Whole ranges are derived by the tests of `witness`."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from rollup_node.node.system.exit_codes import ExitCode
from rollup_node.node.system.process_table import ProcessSpec
from rollup_node.tools.commands import witness_range
from rollup_node.tools.witness.packs import base_name
from rollup_node.tools.witness.recording_stage import RecordingConfig
from tests.support.processes.cli import Cli

NODE = ("--network", "op-sepolia", "--l1", "http://127.0.0.1:9", "--l1.beacon", "http://127.0.0.1:9")
RANGE = ("--from-l2", "5", "--to-l2", "6", "--packs", "x")


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (RANGE, "give the L2 source"),
        (RANGE[:-2], "--packs"),
        ((*RANGE, "--l2", "http://127.0.0.1:9", "--parent", str(os.getpid())), "which started this one, has ended"),
    ],
)
def test_wrong_flags_are_rejected_in_one_line(flags: tuple[str, ...], text: str, cli: Cli) -> None:
    assert text in cli.refused("witness", "range", *flags, *NODE)


def test_a_core_has_a_worker_and_a_full_disk_is_no_bug(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    specs: list[ProcessSpec] = []

    def run(*values: object, compute: Callable[[ProcessSpec], ProcessSpec]) -> int:
        specs.append(compute(ProcessSpec("compute", "", None, copies=7)))
        return ExitCode.CRITICAL if len(specs) == 1 else ExitCode.INTERRUPTED

    monkeypatch.setattr(witness_range, "run", run)
    monkeypatch.setattr(witness_range, "usable_cores", lambda: 5)
    flags = ("--from-l2", "5", "--to-l2", "6", "--packs", str(tmp_path), "--l2", "http://127.0.0.1:9")
    assert cli("witness", "range", *flags, *NODE).code == ExitCode.SETUP
    assert cli("witness", "range", *flags, *NODE, "--workers", "2").code == ExitCode.INTERRUPTED
    assert [spec.copies for spec in specs] == [5, 2]
    assert specs[0].config == RecordingConfig(str(tmp_path), base_name(5, 6))
