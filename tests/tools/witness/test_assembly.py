"""The store out of packs: the same files each time, and nothing that was only read ahead."""

import filecmp
import json
from pathlib import Path

import msgspec
import pytest

from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.types import BlockId
from rollup_node.tools.witness.assembly import AGREED, L1_CONFIG, L1_HEAD, assemble
from rollup_node.tools.witness.manifest import ROLLUP, read_manifest
from rollup_node.tools.witness.packs import PackFolder, RangeResult, execution_name, range_name
from rollup_node.tools.witness.preimages import PreimageFolder, WitnessError
from tests.support.chains.recorded_witness import BASE, CHAIN, FIRST, HEAD, LAST, assembled


def test_a_second_store_has_the_same_files(packs: PackFolder, witness_folder: Path, tmp_path: Path) -> None:
    assembled(packs, tmp_path / "again")
    names = [str(path.relative_to(witness_folder)) for path in witness_folder.rglob("*") if path.is_file()]
    same, different, errors = filecmp.cmpfiles(witness_folder, tmp_path / "again", names, shallow=False)
    assert (len(same), different, errors) == (len(names), [], [])
    manifest = read_manifest(witness_folder)
    assert manifest.preimages == len(names) - 3, "kvformat, rollup.json and witness.json are no preimages"
    assert (manifest.l1_base.number, manifest.l1_head.number) == (BASE, HEAD)
    assert (manifest.safe_head.number, manifest.last, manifest.known.number) == (FIRST, LAST, LAST - 1)
    assert json.loads((witness_folder / ROLLUP).read_text())["l2_chain_id"] == CHAIN.config.l2_chain_id
    assert PreimageFolder(witness_folder).local(L1_HEAD, "it").hex() == manifest.l1_head.hash[2:]


def test_output_roots_executions_and_the_l1_config_are_in_the_store(packs: PackFolder, tmp_path: Path) -> None:
    known = packs.get(range_name(FIRST, LAST), RangeResult, "it")
    shared = PackFolder(tmp_path / "packs")
    shared.path.mkdir()
    for path in packs.path.iterdir():
        (shared.path / path.name).hardlink_to(path)
    (shared.path / range_name(FIRST, LAST)).unlink()
    shared.put(range_name(FIRST, LAST), msgspec.structs.replace(known, agreed=b"agreed" * 20, claimed=b"claimed"))
    for number in range(FIRST + 1, LAST + 1):
        shared.put(execution_name(number), (b"node %d" % number, b"code"))
    manifest = assemble(shared, [(FIRST, LAST)], tmp_path / "store", CHAIN, b"{}")
    store = PreimageFolder(tmp_path / "store")
    assert manifest.executes and manifest.agreed == "0x" + keccak256(b"agreed" * 20).hex()
    assert store.hashed(keccak256(b"agreed" * 20), "it") == b"agreed" * 20
    assert store.local(AGREED, "it") == keccak256(b"agreed" * 20) and store.local(L1_CONFIG, "it") == b"{}"
    assert store.hashed(keccak256(b"node %d" % LAST), "it") and store.hashed(keccak256(b"code"), "it") == b"code"


def test_a_reorg_during_the_run_is_noticed(packs: PackFolder, tmp_path: Path) -> None:
    shared = PackFolder(tmp_path / "packs")
    shared.path.mkdir()
    for path in packs.path.iterdir():
        (shared.path / path.name).hardlink_to(path)
    known = packs.get(range_name(FIRST, LAST), RangeResult, "it")
    (shared.path / range_name(FIRST, LAST)).unlink()
    other = BlockId(BASE, bytes(32))
    shared.put(range_name(FIRST, LAST), msgspec.structs.replace(known, base=other))
    with pytest.raises(WitnessError, match=f"L1 was reorganized at block {BASE}"):
        assembled(shared, tmp_path / "store")
