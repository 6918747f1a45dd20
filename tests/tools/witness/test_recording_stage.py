"""The compute worker that keeps what it verifies: its results are those of the node's own, and the store is exact."""

from pathlib import Path

import orjson
import pytest

from rollup_node.stages.blobs import tasks as blob_tasks
from rollup_node.stages.blobs.beacon_api import OfferedBlob
from rollup_node.stages.blobs.tasks import VerifyBlobs
from rollup_node.stages.l1 import tasks as l1_tasks
from rollup_node.stages.l1.tasks import Invalid, NeedsReceipts, Verified, VerifyBlock, VerifyReceipts
from rollup_node.stages.protocol.types import BlockId
from rollup_node.tools.batcher.kzg_proofs import verify_proof
from rollup_node.tools.recorded.encoded_blocks import ordered_values
from rollup_node.tools.recorded.recording import Recording
from rollup_node.tools.witness.packs import PackFolder, StoredPack, blob_name, l1_name, receipts_name
from rollup_node.tools.witness.recording_stage import Recorder
from tests.support.chains.recorded_witness import FILTERS, HEAD, body_of, receipts_body, with_receipts


@pytest.fixture
def packs(tmp_path: Path) -> PackFolder:
    result = PackFolder(tmp_path / "packs")
    result.create()
    return result


@pytest.fixture
def recorder(packs: PackFolder) -> Recorder:
    packs.put("base", BlockId(HEAD - 9, bytes(32)))
    return Recorder(packs, "base")


def test_blocks_and_receipts_are_verified_as_by_the_node(
    recording: Recording, recorder: Recorder, packs: PackFolder
) -> None:
    """Receipts also where the bloom filter excludes what derivation wants; once, and not of the base [WIT5]."""
    tasks = [VerifyBlock(n, body_of(recording.block(n)), False, FILTERS) for n in range(HEAD - 9, HEAD + 1)]
    known = [l1_tasks.run(task) for task in tasks]
    assert isinstance(known[0], Verified) and recorder.l1(tasks[0]) == known[0]
    assert any(isinstance(item, Verified) for item in known[1:])
    for task, own in zip(tasks[1:], known[1:], strict=True):
        block, result = recording.block(task.number), recorder.l1(task)
        assert isinstance(result, NeedsReceipts)
        assert result.block.transaction_hashes == with_receipts(block).transaction_hashes
        receipts = VerifyReceipts(result.block, receipts_body(block), FILTERS)
        assert recorder.l1(receipts) == l1_tasks.run(receipts)
        assert recorder.l1(task) == own
        assert packs.store.hashed(block.hash, "it") == block.header_rlp
        for name, values in (("transactionsRoot", block.transactions), ("receiptsRoot", block.receipts)):
            root = bytes.fromhex(block.header[name][2:])
            assert tuple(ordered_values(root, lambda digest: packs.store.hashed(digest, "it"))) == values
        pack = packs.get(l1_name(block.hash), StoredPack, "it")
        assert (pack.parent, pack.has_receipts) == (bytes.fromhex(block.header["parentHash"][2:]), True)
        assert set(block.blob_hashes()) >= set(pack.blobs)
        assert packs.has(receipts_name(block.hash))


def test_what_is_not_the_block_is_invalid_and_leaves_no_pack(
    recording: Recording, recorder: Recorder, packs: PackFolder
) -> None:
    block = recording.block(HEAD)
    wrong = block.block(True)
    wrong["transactions"] = wrong["transactions"][1:]
    assert isinstance(recorder.l1(VerifyBlock(HEAD, orjson.dumps({"result": wrong}), False, FILTERS)), Invalid)
    cut = orjson.dumps({"result": block.receipts_json()[1:]})
    assert isinstance(recorder.l1(VerifyReceipts(with_receipts(block), cut, FILTERS)), Invalid)
    assert [path.name for path in packs.path.iterdir()] == ["base"] and packs.store.count() == 0


@pytest.mark.parametrize("evidence", ["none", "wrong proof"])
def test_blobs_are_kept_with_a_proof_that_holds(
    evidence: str, recording: Recording, recorder: Recorder, packs: PackFolder
) -> None:
    (versioned, (blob, commitment)), *_ = recording.blobs.items()
    is_none = evidence == "none"
    offered = OfferedBlob(blob, None if is_none else commitment, None if is_none else bytes((0xC0,)) + bytes(47))
    task = VerifyBlobs((versioned,), (offered,))
    assert recorder.blobs(task).contents == blob_tasks.run(task).contents
    stored = packs.store.blob(versioned, "it")
    assert stored[:2] == (blob, commitment) and verify_proof(*stored)
    assert len(packs.get(blob_name(versioned), StoredPack, "it").keys) == packs.store.count()
