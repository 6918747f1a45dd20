"""The compute worker that keeps what it verifies: its results are those of the node's own, and its packs are exact."""

from pathlib import Path

import orjson
import pytest

from rollup_node.stages.blobs import tasks as blob_tasks
from rollup_node.stages.blobs.beacon_api import OfferedBlob
from rollup_node.stages.blobs.tasks import VerifyBlobs
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.l1 import tasks as l1_tasks
from rollup_node.stages.l1.tasks import Invalid, VerifyBlock, VerifyReceipts
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.mpt import ordered_values
from rollup_node.tools.batcher.kzg_proofs import verify_proof
from rollup_node.tools.recorded.recording import Recording
from rollup_node.tools.witness.packs import BlobPack, L1Pack, PackFolder, blob_name, l1_name, receipts_name
from rollup_node.tools.witness.recording_stage import Recorder, RecordingConfig, build
from tests.support.chains.recorded_witness import FILTERS, HEAD, body_of, receipts_body, with_receipts
from tests.tools.conftest import NewBuses


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    return Recorder(PackFolder(tmp_path))


def test_blocks_and_receipts_are_verified_as_by_the_node(
    recording: Recording, recorder: Recorder, tmp_path: Path
) -> None:
    for number in range(HEAD - 9, HEAD + 1):
        block = recording.block(number)
        task = VerifyBlock(number, body_of(block), False, FILTERS)
        assert recorder.l1(task) == l1_tasks.run(task)
        receipts = VerifyReceipts(with_receipts(block), receipts_body(block), FILTERS)
        assert recorder.l1(receipts) == l1_tasks.run(receipts)
        pack = PackFolder(tmp_path).get(l1_name(block.hash), L1Pack, "it")
        assert (pack.header, keccak256(pack.header)) == (block.header_rlp, block.hash)
        nodes = {keccak256(node): node for node in pack.nodes}
        root = bytes.fromhex(block.header["transactionsRoot"][2:])
        assert tuple(ordered_values(root, nodes.__getitem__)) == block.transactions
        receipt_nodes = PackFolder(tmp_path).get(receipts_name(block.hash), tuple[bytes, ...], "it")
        root = bytes.fromhex(block.header["receiptsRoot"][2:])
        nodes = {keccak256(node): node for node in receipt_nodes}
        assert tuple(ordered_values(root, nodes.__getitem__)) == block.receipts
        assert len(pack.verified.transaction_hashes) == len(block.transactions or ())


def test_what_is_not_the_block_is_invalid_and_leaves_no_pack(
    recording: Recording, recorder: Recorder, tmp_path: Path
) -> None:
    block = recording.block(HEAD)
    wrong = block.block(True)
    wrong["transactions"] = wrong["transactions"][1:]
    assert isinstance(recorder.l1(VerifyBlock(HEAD, orjson.dumps({"result": wrong}), False, FILTERS)), Invalid)
    cut = orjson.dumps({"result": block.receipts_json()[1:]})
    assert isinstance(recorder.l1(VerifyReceipts(with_receipts(block), cut, FILTERS)), Invalid)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("evidence", ["none", "commitment", "wrong proof"])
def test_blobs_are_kept_with_a_proof_that_holds(
    evidence: str, recording: Recording, recorder: Recorder, tmp_path: Path
) -> None:
    (versioned, (blob, commitment)), *_ = recording.blobs.items()
    proof = bytes((0xC0,)) + bytes(47) if evidence == "wrong proof" else None
    offered = OfferedBlob(blob, None if evidence == "none" else commitment, proof)
    task = VerifyBlobs((versioned,), (offered,))
    assert recorder.blobs(task).contents == blob_tasks.run(task).contents
    pack = PackFolder(tmp_path).get(blob_name(versioned), BlobPack, "it")
    assert (pack.blob, pack.commitment) == (blob, commitment)
    assert verify_proof(pack.blob, pack.commitment, pack.proof)


def test_the_stage_serves_the_tasks_of_all_processes(new_buses: NewBuses, tmp_path: Path) -> None:
    stage = build(RecordingConfig(str(tmp_path)), new_buses(tmp_path)["compute"], Meter("compute"))
    assert stage.worker is not None
