"""`witness.json`: what it says is checked before anything is read by it."""

import json
from pathlib import Path

import pytest

from rollup_node.stages.protocol.types import BlockId
from rollup_node.tools.witness.manifest import (
    MANIFEST,
    Block,
    manifest_of,
    read_manifest,
    rollup_json,
    rollup_of,
    write_manifest,
)
from rollup_node.tools.witness.preimages import WitnessError
from tests.support.chains.recorded_witness import CHAIN

BLOCK = Block.of(BlockId(7, bytes(32)))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    values = {"agreed": None, "claimed": None, "executes": False, "preimages": 3, "last": 9}
    blocks = dict.fromkeys(("safe_head", "known", "l1_base", "l1_head"), BLOCK)
    write_manifest(tmp_path, manifest_of(CHAIN, **values, **blocks))
    return tmp_path


def test_a_manifest_comes_back_with_its_chain(folder: Path) -> None:
    manifest = read_manifest(folder)
    assert manifest.safe_head.id == BlockId(7, bytes(32)) and manifest.l1_chain == CHAIN.l1_chain
    assert rollup_of(manifest) == CHAIN.config
    assert json.loads(rollup_json(CHAIN.config)) == json.loads(bytes(manifest.rollup))


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"version": 2}, "has version 2, this program reads version 1"),
        ({"l1_head": {"number": 1, "hash": "0x12"}}, "is damaged"),
        ({"last": "x"}, "is damaged"),
        ({"last": 7}, "its blocks are out of order"),
        ({"known": {"number": 10, "hash": BLOCK.hash}}, "its blocks are out of order"),
        ({"l1_base": {"number": 8, "hash": BLOCK.hash}}, "its blocks are out of order"),
        ({"rollup": {}}, "the rollup config in witness.json is wrong: "),
    ],
)
def test_a_wrong_manifest_is_refused_in_a_line(change: dict[str, object], error: str, folder: Path) -> None:
    path = folder / MANIFEST
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(WitnessError, match=error):
        rollup_of(read_manifest(folder))


@pytest.mark.parametrize(("content", "error"), [(None, "there is no witness.json"), (b"\xff{", "is damaged")])
def test_what_is_no_manifest(content: bytes | None, error: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / MANIFEST).write_bytes(content)
    with pytest.raises(WitnessError, match=error):
        read_manifest(tmp_path)
    (tmp_path / MANIFEST).unlink(missing_ok=True)
    (tmp_path / MANIFEST).mkdir()
    with pytest.raises(WitnessError, match="cannot be read: Is a directory"):
        read_manifest(tmp_path)
