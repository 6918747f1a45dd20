"""Verification of offered blobs: the wanted ones come out, whatever else is offered [BCN13, O5, O7]."""

from collections.abc import Sequence

import orjson
import pytest

from rollup_node.ipc.wire.codec import Codec
from rollup_node.stages.blobs import kzg, tasks
from rollup_node.stages.blobs.beacon_api import OfferedBlob, parse_sidecars
from rollup_node.stages.blobs.tasks import (
    BLOB_SIZE,
    BlobDataError,
    BlobsVerified,
    VerifyBlobs,
    decode_blob,
    run,
)
from tests.support.servers.fake_beacon import KnownBlob

KnownBlobs = tuple[KnownBlob, ...]

both_libraries = pytest.mark.usefixtures("library")

NOT_CANONICAL = b"\xff" * kzg.BLOB_SIZE


def altered(blob: bytes) -> bytes:
    return blob[:500] + bytes([blob[500] ^ 1]) + blob[501:]


def check(wanted: Sequence[KnownBlob], offered: Sequence[OfferedBlob], good: Sequence[KnownBlob]) -> BlobsVerified:
    """Run the task over the codec; exactly the contents of `good` come out."""
    down, up = Codec(tasks.Task), Codec(tasks.Result)
    task = VerifyBlobs(tuple(recorded.hash for recorded in wanted), tuple(offered))
    verified: BlobsVerified = up.decode(up.encode(run(down.decode(down.encode(task)))))
    assert {content.hash: content.data for content in verified.contents} == {
        recorded.hash: decode_blob(recorded.blob) for recorded in good
    }
    assert all(content.refused is None for content in verified.contents)
    return verified


@pytest.fixture
def proven(small_blobs: KnownBlobs) -> list[OfferedBlob]:
    return [OfferedBlob(known.blob, known.commitment, known.proof) for known in small_blobs]


@both_libraries
def test_by_proofs(small_blobs: KnownBlobs, proven: list[OfferedBlob]) -> None:
    assert check(small_blobs, proven, small_blobs).problems == ()


def test_by_commitments_in_any_order(recorded_blobs: KnownBlobs) -> None:
    committed = [OfferedBlob(recorded.blob, recorded.commitment, None) for recorded in recorded_blobs]
    assert check(recorded_blobs, committed[::-1], recorded_blobs).problems == ()


@both_libraries
def test_blobs_paired_with_each_others_commitments_are_found(small_blobs: KnownBlobs) -> None:
    crossed = [
        OfferedBlob(small_blobs[1].blob, small_blobs[0].commitment, None),
        OfferedBlob(small_blobs[0].blob, small_blobs[1].commitment, None),
    ]
    assert check(small_blobs[:2], crossed, small_blobs[:2]).problems == ()


@pytest.mark.fault("F17")
@both_libraries
def test_a_bad_blob_is_reported_and_the_others_are_found(small_blobs: KnownBlobs, proven: list[OfferedBlob]) -> None:
    for has_proofs in (True, False):
        offered = [OfferedBlob(item.blob, item.commitment, item.proof if has_proofs else None) for item in proven[:3]]
        offered[1] = OfferedBlob(altered(offered[1].blob), offered[1].commitment, offered[1].proof)
        verified = check(small_blobs[:3], offered, [small_blobs[0], small_blobs[2]])
        wrong = kzg.versioned_hash(kzg.blob_to_commitment(offered[1].blob))
        assert verified.problems == (f"a blob has the hash 0x{wrong.hex()}, which was not requested",)


@both_libraries
def test_a_right_blob_with_a_wrong_proof_is_taken(small_blobs: KnownBlobs, proven: list[OfferedBlob]) -> None:
    offered = [OfferedBlob(proven[0].blob, proven[0].commitment, proven[1].proof)]
    assert check([small_blobs[0]], offered, [small_blobs[0]]).problems == ()


def test_blobs_that_were_not_requested(small_blobs: KnownBlobs, proven: list[OfferedBlob]) -> None:
    verified = check([small_blobs[0]], [proven[1]], [])
    assert "which was not requested" in verified.problems[0]
    assert check([small_blobs[0]], proven[:2], [small_blobs[0]]).problems == ()
    assert check([], [], []).problems == ()


@pytest.mark.fault("F17")
def test_elements_that_are_no_field_elements(small_blobs: KnownBlobs) -> None:
    for commitment in (None, small_blobs[0].commitment):
        verified = check([small_blobs[0]], [OfferedBlob(NOT_CANONICAL, commitment, None)], [])
        assert verified.problems == ("a blob has an element that is no field element, or a wrong size",)
    assert check([small_blobs[0]], [OfferedBlob(b"", small_blobs[0].commitment, b"")], []).problems


@pytest.mark.fault("F17")
def test_authentic_blobs_of_another_encoding_are_refused_by_rule(sidecars_json: bytes) -> None:
    texts = [load["kzg_commitment"] for load in orjson.loads(sidecars_json)["data"]]
    hashes = tuple(kzg.versioned_hash(bytes.fromhex(text[2:])) for text in texts)
    verified = run(VerifyBlobs(hashes, parse_sidecars(sidecars_json, hashes)))
    assert {content.hash for content in verified.contents} == set(hashes)
    assert {(content.data, content.refused) for content in verified.contents} == {(None, "BL1")}


def test_a_blob_of_another_size_is_refused() -> None:
    """[BL] The other rules are conformance cases."""
    with pytest.raises(BlobDataError, match=r"\[BL\]"):
        decode_blob(bytes(BLOB_SIZE - 1))
