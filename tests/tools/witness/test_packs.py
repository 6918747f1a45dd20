"""Packs: complete or not there, named where they are damaged."""

from pathlib import Path

import pytest

from rollup_node.stages.protocol.types import BlockId
from rollup_node.tools.witness.packs import (
    BlobPack,
    PackFolder,
    RangeResult,
    blob_name,
    execution_name,
    l1_name,
    l2_name,
    range_name,
    receipts_name,
)
from rollup_node.tools.witness.preimages import WitnessError

HASH = bytes(range(32))


def test_packs_are_written_and_read(tmp_path: Path) -> None:
    packs = PackFolder(tmp_path)
    result = RangeResult(BlockId(1, HASH), BlockId(2, HASH), b"a", b"")
    names = [l1_name(HASH), receipts_name(HASH), blob_name(HASH), l2_name(7), execution_name(7), range_name(7, 9)]
    assert len(set(names)) == len(names)
    assert not packs.has(names[0])
    packs.put(names[0], result)
    assert packs.has(names[0]) and packs.get(names[0], RangeResult, "it") == result
    assert [path.name for path in tmp_path.iterdir()] == [names[0]], "no temporary file is left"


def test_a_pack_that_is_missing_or_damaged_is_named(tmp_path: Path) -> None:
    packs = PackFolder(tmp_path)
    with pytest.raises(WitnessError, match=r"^L1 block 7 was not read: L1 may have been reorganized"):
        packs.get("none", BlobPack, "L1 block 7")
    (tmp_path / "cut").write_bytes(b"\x93\xc4")
    with pytest.raises(WitnessError, match=r"^the pack of blob 1 is damaged"):
        packs.get("cut", BlobPack, "blob 1")
