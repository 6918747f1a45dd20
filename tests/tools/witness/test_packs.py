"""Packs are named where they are damaged, and say what is in the store."""

import shutil
from pathlib import Path

import pytest

from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.errors import CriticalError
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.tools.witness.packs import PackFolder, StoredPack
from rollup_node.tools.witness.preimages import WitnessError, hashed_preimages


def test_a_pack_that_is_missing_or_damaged_is_named(tmp_path: Path) -> None:
    packs = PackFolder(tmp_path)
    with pytest.raises(WitnessError, match=r"^L1 block 7 was not read: L1 may have been reorganized"):
        packs.get("none", StoredPack, "L1 block 7")
    (tmp_path / "cut").write_bytes(b"\x93\xc4")
    with pytest.raises(WitnessError, match=r"^the pack of blob 1 is damaged"):
        packs.get("cut", StoredPack, "blob 1")


def test_preimages_are_stored_before_their_pack_and_once(tmp_path: Path) -> None:
    packs = PackFolder(tmp_path / "packs")
    packs.create()
    preimages = hashed_preimages({keccak256(value): value for value in (b"one", b"two")})
    packs.put_stored("l1-a", preimages, has_receipts=True)
    assert packs.get("l1-a", StoredPack, "it") == StoredPack(tuple(preimages), has_receipts=True)
    assert packs.store.hashed(keccak256(b"two"), "it") == b"two"
    packs.put_stored("l1-a", {})
    assert packs.get("l1-a", StoredPack, "it").has_receipts, "it is there"
    packs.put_stored("blob-b", hashed_preimages({keccak256(value): value for value in (b"two", b"three")}))
    packs.sweep({"l1-a"})
    assert packs.store.count() == 2 and packs.store.hashed(keccak256(b"two"), "it") == b"two"


def test_a_disk_that_refuses_ends_the_process_in_a_line(tmp_path: Path) -> None:
    """And leaves no pack of what is not in the store."""
    packs = PackFolder(tmp_path / "packs")
    packs.create()
    shutil.rmtree(packs.store.path)
    packs.store.path.write_bytes(b"")
    with pytest.raises(CriticalError, match=rf"^cannot write {tmp_path}: Not a directory$") as raised:
        packs.put_stored("l1-a", {bytes(32): b""})
    assert raised.value.code is Code.FILE and not packs.has("l1-a")
