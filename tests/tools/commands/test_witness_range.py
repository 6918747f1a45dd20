"""`rollup-node witness range`: its flags. Whole ranges are derived by the tests of `witness`."""

import os
from pathlib import Path

import pytest

from rollup_node.stages.protocol.types import BlockId
from rollup_node.tools.commands import witness_range
from rollup_node.tools.witness.packs import PackFolder, RangeResult, range_name
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


def test_a_derived_range_is_complete_with_its_receipts(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is missing of a range of one L1 block."""
    block = BlockId(7, bytes(32))
    result = RangeResult(block, block, b"", b"")

    def run(*values: object, **options: object) -> int:
        PackFolder(tmp_path).put(f"derived-{range_name(5, 6)}", result)
        return 0

    monkeypatch.setattr(witness_range, "run", run)
    flags = ("--from-l2", "5", "--to-l2", "6", "--packs", str(tmp_path), "--l2", "http://127.0.0.1:9")
    cli.out("witness", "range", *flags, *NODE)
    assert PackFolder(tmp_path).get(range_name(5, 6), RangeResult, "it") == result
    monkeypatch.setattr(witness_range, "run", lambda *values, **options: 1)
    assert cli("witness", "range", *flags, *NODE).code == 0, "it is complete"
    (tmp_path / f"derived-{range_name(5, 6)}").unlink()
    assert cli("witness", "range", *flags, *NODE).code == 1
