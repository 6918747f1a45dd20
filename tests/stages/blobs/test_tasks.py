"""Authentication of offered blobs: what is wanted comes out, whatever else is offered."""

from typing import Any

import ckzg
import orjson
import pytest

from rollup_node.ipc.wire.codec import Codec
from rollup_node.stages.blobs import kzg, tasks
from rollup_node.stages.blobs.beacon_api import Candidate, sidecars
from rollup_node.stages.blobs.tasks import BlobsVerified, VerifyBlobs, run
from rollup_node.stages.protocol.blob_codec import decode_blob

NOT_CANONICAL = b"\xff" * kzg.BLOB_SIZE


def spoiled(blob: bytes) -> bytes:
    return blob[:500] + bytes([blob[500] ^ 1]) + blob[501:]


def check(wanted: list[Any], candidates: list[Candidate], good: list[Any]) -> BlobsVerified:
    """Runs the task over the codec; exactly the contents of `good` come out."""
    down, up = Codec(tasks.Task), Codec(tasks.Result)
    task = VerifyBlobs(tuple(real.hash for real in wanted), tuple(candidates))
    verified: BlobsVerified = up.decode(up.encode(run(down.decode(down.encode(task)))))
    assert {content.hash: content.data for content in verified.contents} == {
        real.hash: decode_blob(real.blob) for real in good
    }
    assert all(content.refused is None for content in verified.contents)
    return verified


@pytest.fixture
def committed(real_blobs: Any) -> list[Candidate]:
    return [Candidate(real.blob, real.commitment, None) for real in real_blobs]


@pytest.fixture(scope="module")
def proven(real_blobs: Any) -> list[Candidate]:
    return [
        Candidate(
            real.blob, real.commitment, bytes(ckzg.compute_blob_kzg_proof(real.blob, real.commitment, kzg.load_setup()))
        )
        for real in real_blobs
    ]


def test_by_proofs(real_blobs: Any, proven: list[Candidate]) -> None:
    assert check(list(real_blobs), proven, list(real_blobs)).problems == ()


def test_by_commitments_in_any_order(real_blobs: Any, committed: list[Candidate]) -> None:
    assert check(list(real_blobs), committed[::-1], list(real_blobs)).problems == ()


def test_without_commitments(real_blobs: Any) -> None:
    bare = [Candidate(real.blob, None, None) for real in real_blobs[:2]]
    assert check(list(real_blobs[:2]), bare, list(real_blobs[:2])).problems == ()


def test_blobs_paired_with_each_others_commitments_are_found_all_the_same(real_blobs: Any) -> None:
    crossed = [
        Candidate(real_blobs[1].blob, real_blobs[0].commitment, None),
        Candidate(real_blobs[0].blob, real_blobs[1].commitment, None),
    ]
    assert check(list(real_blobs[:2]), crossed, list(real_blobs[:2])).problems == ()


def test_a_bad_blob_is_named_and_the_others_are_had(real_blobs: Any, proven: list[Candidate]) -> None:
    for has_proofs in (True, False):
        offered = [Candidate(each.blob, each.commitment, each.proof if has_proofs else None) for each in proven[:3]]
        offered[1] = Candidate(spoiled(offered[1].blob), offered[1].commitment, offered[1].proof)
        verified = check(list(real_blobs[:3]), offered, [real_blobs[0], real_blobs[2]])
        wrong = kzg.versioned_hash(kzg.commitment_of(offered[1].blob))
        assert verified.problems == (f"a blob has the hash 0x{wrong.hex()}, which was not asked for",)


def test_a_right_blob_with_a_wrong_proof_is_taken(real_blobs: Any, proven: list[Candidate]) -> None:
    offered = [Candidate(proven[0].blob, proven[0].commitment, proven[1].proof)]
    assert check([real_blobs[0]], offered, [real_blobs[0]]).problems == ()


def test_blobs_that_nobody_asked_for(real_blobs: Any, proven: list[Candidate]) -> None:
    verified = check([real_blobs[0]], [proven[1]], [])
    assert "which was not asked for" in verified.problems[0]
    assert check([real_blobs[0]], proven[:2], [real_blobs[0]]).problems == ()
    assert check([], [], []).problems == ()


def test_elements_that_are_no_field_elements(real_blobs: Any) -> None:
    for commitment in (None, real_blobs[0].commitment):
        verified = check([real_blobs[0]], [Candidate(NOT_CANONICAL, commitment, None)], [])
        assert verified.problems == ("a blob has an element that is no field element, or a wrong size",)
    assert check([real_blobs[0]], [Candidate(b"", real_blobs[0].commitment, b"")], []).problems


def test_authentic_blobs_of_another_encoding_are_refused_by_rule(sidecars_json: bytes) -> None:
    texts = [each["kzg_commitment"] for each in orjson.loads(sidecars_json)["data"]]
    hashes = tuple(kzg.versioned_hash(bytes.fromhex(text[2:])) for text in texts)
    verified = run(VerifyBlobs(hashes, sidecars(sidecars_json, hashes)))
    assert {content.hash for content in verified.contents} == set(hashes)
    assert {(content.data, content.refused) for content in verified.contents} == {(None, "BL1")}
