"""Beacon API answers in the forms that servers give them."""

from collections.abc import Callable
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.blobs import beacon_api as answers
from rollup_node.stages.blobs.beacon_api import AnswerError
from rollup_node.stages.blobs.kzg import proofs_hold, versioned_hash
from rollup_node.stages.protocol.types import BlobRef


def body(data: Any) -> bytes:
    return orjson.dumps({"data": data})


def test_genesis_and_slot_duration() -> None:
    assert (
        answers.genesis_time(body({"genesis_time": "1655733600", "genesis_fork_version": "0x90000069"})) == 1655733600
    )
    assert answers.slot_milliseconds(body({"SECONDS_PER_SLOT": "12"})) == 12_000
    assert answers.slot_milliseconds(body({"SECONDS_PER_SLOT": "12", "SLOT_DURATION_MS": "6000"})) == 6_000
    for wrong in ({}, [], {"SECONDS_PER_SLOT": "0"}, {"SECONDS_PER_SLOT": "-1"}, {"SLOT_DURATION_MS": None}):
        with pytest.raises(AnswerError):
            answers.slot_milliseconds(body(wrong))


def test_real_sidecars(sidecars_json: bytes) -> None:
    listed = orjson.loads(sidecars_json)["data"]
    hashes = [versioned_hash(bytes.fromhex(each["kzg_commitment"][2:])) for each in listed]
    found = answers.sidecars(sidecars_json, hashes)
    assert len(found) == len(listed) == 5
    assert proofs_hold([c.blob for c in found], [c.commitment or b"" for c in found], [c.proof or b"" for c in found])
    assert answers.sidecars(sidecars_json, hashes[3:4]) == found[3:4]
    assert answers.sidecars(sidecars_json, ()) == ()


def test_blobs_with_and_without_an_envelope(real_blobs: Any) -> None:
    texts = ["0x" + real.blob.hex() for real in real_blobs[:2]]
    expected = tuple(real.blob for real in real_blobs[:2])
    assert answers.blobs(body(texts)) == expected
    assert answers.blobs(orjson.dumps(texts)) == expected
    assert answers.blobs(body([])) == ()


def test_commitments_of_a_beacon_block(real_blobs: Any) -> None:
    texts = ["0x" + real.commitment.hex() for real in real_blobs]
    block = {"message": {"body": {"blob_kzg_commitments": texts}}, "signature": "0x"}
    assert answers.block_commitments(body(block)) == tuple(real.commitment for real in real_blobs)


@pytest.mark.parametrize("read", [answers.blobs, answers.block_commitments, answers.genesis_time])
@pytest.mark.parametrize(
    "wrong", [b"", b"<html>", b"5", b"null", b'{"data":{}}', b'{"data":["0x00"]}', b'{"data":[5]}']
)
def test_wrong_answers(read: Callable[[bytes], Any], wrong: bytes) -> None:
    with pytest.raises(AnswerError):
        read(wrong)


def test_too_many_blobs() -> None:
    with pytest.raises(AnswerError, match="more than 256"):
        answers.blobs(body(["0x"] * 257))


def refs(real_blobs: Any, places: list[int]) -> list[BlobRef]:
    return [BlobRef(place, real_blobs[place].hash) for place in places]


def test_blobs_are_paired_with_the_commitments_of_their_block(real_blobs: Any) -> None:
    commitments = [real.commitment for real in real_blobs]
    for asked, offered in (([4, 1], [1, 4]), ([2], [0, 1, 2, 3, 4, 5])):
        given_blobs = [real_blobs[place].blob for place in offered]
        paired = answers.with_commitments(given_blobs, refs(real_blobs, asked), commitments)
        assert [each.commitment for each in paired] == [real_blobs[place].commitment for place in offered]
        assert [each.blob for each in paired] == given_blobs


def test_without_a_clue_blobs_have_no_commitment(real_blobs: Any) -> None:
    offered = [real.blob for real in real_blobs[:3]]
    commitments = [real.commitment for real in real_blobs]
    for known in (None, commitments, []):
        paired = answers.with_commitments(offered, refs(real_blobs, [0, 1]), known)
        assert [each.commitment for each in paired] == [None] * 3
    wrong_block = answers.with_commitments(offered[:2], refs(real_blobs, [0, 1]), commitments[4:])
    assert [each.commitment for each in wrong_block] == [None] * 2


def test_a_blob_offered_twice_counts_once(real_blobs: Any) -> None:
    blob = real_blobs[0].blob
    assert len(answers.with_commitments([blob, blob], refs(real_blobs, [0]), None)) == 1


@given(st.binary(max_size=300))
def test_no_bytes_raise_anything_else(noise: bytes) -> None:
    for read in (answers.blobs, answers.block_commitments, answers.genesis_time, answers.slot_milliseconds):
        with pytest.raises(AnswerError):
            read(noise + b"}")
