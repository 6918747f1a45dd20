"""The store by the packs: the same files each time, and nothing that was only read ahead."""

import filecmp
import json
import os
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rollup_node.stages.l1.tasks import VerifyBlock
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.types import BlockId
from rollup_node.tools.recorded.recording import Recording
from rollup_node.tools.witness.assembly import AGREED, L1_CONFIG, L1_HEAD, assemble
from rollup_node.tools.witness.manifest import ROLLUP, read_manifest
from rollup_node.tools.witness.packs import PackFolder, RangeResult, base_name, execution_name, l1_name, range_name
from rollup_node.tools.witness.preimages import PreimageFolder, WitnessError
from rollup_node.tools.witness.recording_stage import Recorder
from tests.support.chains.recorded_witness import (
    BASE,
    CHAIN,
    FILTERS,
    FIRST,
    HEAD,
    LAST,
    assembled,
    body_of,
)


def test_a_second_store_has_the_same_files(
    packs: PackFolder, witness_folder: Path, recording: Recording, tmp_path: Path
) -> None:
    """Nothing of blocks that are not of the range, which a worker has stored, or begun to when it was stopped."""
    for folder in (packs.path, witness_folder):
        shutil.copytree(folder, tmp_path / folder.name, copy_function=os.link)
    again = PackFolder(tmp_path / packs.path.name)
    recorder = Recorder(again, base_name(FIRST, LAST))
    others = [recording.block(number) for number in (BASE - 1, BASE - 2)]
    for block in others:
        recorder.l1(VerifyBlock(block.number, body_of(block), False, FILTERS))
        assert again.store.hashed(block.hash, "it")
    begun = again.path / l1_name(others[1].hash)
    begun.rename(again.path / f".{begun.name}.host.7.0")
    (again.path / f".{begun.name}.host.8.0").write_bytes(b"cut")
    assembled(again)
    paths, written = (sorted(folder.rglob("*")) for folder in (witness_folder, again.store.path))
    names = [str(path.relative_to(witness_folder)) for path in paths]
    assert names == [str(path.relative_to(again.store.path)) for path in written], "also no empty folder"
    files = [name for name, path in zip(names, paths, strict=True) if path.is_file()]
    same, different, errors = filecmp.cmpfiles(witness_folder, again.store.path, files, shallow=False)
    assert (len(same), different, errors) == (len(files), [], [])
    manifest = read_manifest(witness_folder)
    assert manifest.preimages == len(files) - 3, "kvformat, rollup.json and witness.json are no preimages"
    assert (manifest.l1_base.number, manifest.l1_head.number) == (BASE, HEAD)
    assert (manifest.safe_head.number, manifest.last, manifest.known.number) == (FIRST, LAST, LAST - 1)
    assert json.loads((witness_folder / ROLLUP).read_text())["l2_chain_id"] == CHAIN.config.l2_chain_id
    assert PreimageFolder(witness_folder).local(L1_HEAD, "it").hex() == manifest.l1_head.hash[2:]


def _with_result(packs: PackFolder, folder: Path, **changes: Any) -> PackFolder:
    """Return a copy of the packs whose range has another result."""
    name, result = range_name(FIRST, LAST), PackFolder(folder / "packs")
    result.create()
    for path in packs.path.iterdir():
        if path.name != name:
            (result.path / path.name).hardlink_to(path)
    result.put(name, msgspec.structs.replace(packs.get(name, RangeResult, "it"), **changes))
    return result


def test_output_roots_executions_and_the_l1_config_are_in_the_store(packs: PackFolder, tmp_path: Path) -> None:
    shared = _with_result(packs, tmp_path, agreed=b"agreed" * 20, claimed=b"claimed")
    for number in range(FIRST + 1, LAST + 1):
        shared.put(execution_name(number), (b"node %d" % number, b"code"))
    manifest = assemble(shared, [(FIRST, LAST)], CHAIN, b"{}")
    store = shared.store
    assert manifest.executes and manifest.agreed == "0x" + keccak256(b"agreed" * 20).hex()
    assert store.hashed(keccak256(b"agreed" * 20), "it") == b"agreed" * 20
    assert store.local(AGREED, "it") == keccak256(b"agreed" * 20) and store.local(L1_CONFIG, "it") == b"{}"
    assert store.hashed(keccak256(b"node %d" % LAST), "it") and store.hashed(keccak256(b"code"), "it") == b"code"


def test_a_reorg_during_the_run_is_noticed(packs: PackFolder, tmp_path: Path) -> None:
    with pytest.raises(WitnessError, match=f"L1 was reorganized at block {BASE}"):
        assembled(_with_result(packs, tmp_path, base=BlockId(BASE, bytes(32))))
