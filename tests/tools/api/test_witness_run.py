"""Derivation over a witness of the recorded range: the same blocks as over the recording, and what is refused."""

from pathlib import Path
from typing import Any

import pytest

import rollup_node
from rollup_node.tools.api.witness_run import WitnessRun
from rollup_node.tools.inspect.replay_stage import ReplayFailed
from tests.tools.api.test_blocks import EMPTY
from tests.tools.witness.conftest import packs, witness_folder

__all__ = ["packs", "witness_folder"]

FROM_L1 = 6_582_944
"""The origin of the safe head: the recording is read from before the witness on, though not for a channel's timeout."""

pytestmark = pytest.mark.usefixtures("nothing_is_left")


def _run(folder: Path, first: int | None = None, last: int | None = None) -> WitnessRun:
    return WitnessRun(str(folder), rollup_node.Network("op-sepolia"), first, last)


def test_the_blocks_are_those_of_the_recording(witness_folder: Path, recording_folder: Path) -> None:
    range_of = _run(witness_folder)
    proven = list(rollup_node.derive("op-sepolia", witness=witness_folder))
    assert [block.number for block in proven] == list(range(range_of.first + 1, range_of.last + 1))
    blocks: dict[str, Any] = {"from_l2": range_of.first, "to_l2": range_of.last, "from_l1": FROM_L1}
    recorded = rollup_node.derive("op-sepolia", archive=recording_folder, **blocks)
    for block, other in zip(proven, recorded, strict=True):
        assert (block.attributes, block.batch, block.hash) == (other.attributes, other.batch, other.hash)
        assert block.l1_inclusion == other.l1_inclusion
        # The recording is read from an earlier L1 block on.
        assert all(drop in other.drops for drop in block.drops) and bool(block.drops) == bool(other.drops)
    (first,) = rollup_node.derive("op-sepolia", witness=witness_folder, to_l2=range_of.first + 1)
    assert first == proven[0]


@pytest.mark.parametrize(
    ("chain", "arguments", "kind", "text"),
    [
        ("op-sepolia", {"from_l2": 5}, rollup_node.RangeError, "it is of the blocks after"),
        ("op-sepolia", {"to_l2": 5}, rollup_node.RangeError, "it is of the blocks after"),
        ("op-mainnet", {}, rollup_node.DataError, "it is of L2 chain 11155420, not 10"),
        ("op-sepolia", {"l1": "http://127.0.0.1:9"}, rollup_node.InputError, "a witness is read alone"),
    ],
)
def test_what_does_not_fit_a_witness(
    chain: str, arguments: dict[str, Any], kind: type[Exception], text: str, witness_folder: Path
) -> None:
    with pytest.raises(kind, match=text):
        rollup_node.derive(chain, witness=witness_folder, **arguments)


def test_a_folder_that_is_no_witness_and_one_that_lacks_a_preimage(witness_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(rollup_node.DataError, match=r"there is no witness\.json in it") as caught:
        rollup_node.derive("op-sepolia", witness=tmp_path)
    assert caught.value.rule == "WIT7"
    copy = tmp_path / "copy"
    copy.mkdir()
    largest = set(sorted(witness_folder.glob("*/*"), key=lambda path: path.stat().st_size)[-20:])
    for path in witness_folder.iterdir():
        if largest.isdisjoint(path.glob("*")):
            (copy / path.name).symlink_to(path)
        else:
            (copy / path.name).mkdir()
            for file in set(path.iterdir()) - largest:
                (copy / path.name / file.name).symlink_to(file)
    with pytest.raises(rollup_node.DataError, match=r"witness .*copy: "):
        list(rollup_node.derive("op-sepolia", witness=copy))


def test_a_block_that_differs_and_a_bug(witness_folder: Path) -> None:
    run = _run(witness_folder)
    result = run.error_of(ReplayFailed("block 2 differs from the witness"), EMPTY)
    assert isinstance(result, rollup_node.BlockDiffers) and result.block is EMPTY
    bug = ZeroDivisionError()
    assert run.error_of(bug, None) is bug
