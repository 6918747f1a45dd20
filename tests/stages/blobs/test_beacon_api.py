"""Beacon API responses in the forms that servers return."""

from collections.abc import Callable
from typing import Any

import orjson
import pytest

from rollup_node.stages.blobs.beacon_api import (
    RETENTION_SECONDS,
    BeaconResponseError,
    Failed,
    OfferedBlob,
    SlotClock,
    SourceFailure,
    choose_clock,
    classify,
    pair_with_commitments,
    parse_blobs,
    parse_block_commitments,
    parse_genesis_time,
    parse_sidecars,
    parse_slot_milliseconds,
    parse_ssz_blobs,
    parse_ssz_sidecars,
)
from rollup_node.stages.blobs.kzg import BLOB_SIZE, versioned_hash
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.types import BlobRef
from tests.support.servers.fake_beacon import KnownBlob

KnownBlobs = tuple[KnownBlob, ...]


def body(data: Any) -> bytes:
    return orjson.dumps({"data": data})


def test_genesis_and_slot_duration() -> None:
    """[BCN3] What is null is absent."""
    assert parse_genesis_time(body({"genesis_time": "1655733600", "genesis_fork_version": "0x90000069"})) == 1655733600
    assert parse_slot_milliseconds(body({"SECONDS_PER_SLOT": "12"})) == 12_000
    assert parse_slot_milliseconds(body({"SLOT_DURATION_MS": "12000"})) == 12_000
    assert parse_slot_milliseconds(body({"SECONDS_PER_SLOT": "12", "SLOT_DURATION_MS": "6000"})) == 6_000
    for null in (
        {"SLOT_DURATION_MS": None, "SECONDS_PER_SLOT": "12"},
        {"SLOT_DURATION_MS": "12000", "SECONDS_PER_SLOT": None},
    ):
        assert parse_slot_milliseconds(body(null)) == 12_000, "servers with a table of known keys answer so"
    malformed: list[object] = [
        {},
        [],
        {"SECONDS_PER_SLOT": "0"},
        {"SECONDS_PER_SLOT": "-1"},
        {"SLOT_DURATION_MS": None},
        {"SLOT_DURATION_MS": None, "SECONDS_PER_SLOT": None},
    ]
    for wrong in malformed:
        with pytest.raises(BeaconResponseError):
            parse_slot_milliseconds(body(wrong))


def test_blobs_and_sidecars_in_ssz(sidecars_json: bytes, small_blobs: KnownBlobs) -> None:
    """[BCN18] A sidecar has its fields in the order of the specs: index, blob, commitment, proof, header and its
    inclusion proof."""
    blobs = [known.blob for known in small_blobs[:2]]
    assert parse_ssz_blobs(b"".join(blobs)) == tuple(blobs)
    assert parse_ssz_blobs(b"") == ()
    listed = orjson.loads(sidecars_json)["data"]
    fields = [[bytes.fromhex(item[name][2:]) for name in ("blob", "kzg_commitment", "kzg_proof")] for item in listed]
    encoded = [n.to_bytes(8, "little") + b"".join(item) + bytes(208 + 17 * 32) for n, item in enumerate(fields)]
    hashes = [versioned_hash(commitment) for _, commitment, _ in fields]
    assert parse_ssz_sidecars(b"".join(encoded), hashes) == parse_sidecars(sidecars_json, hashes)
    fourth = parse_ssz_sidecars(b"".join(encoded), hashes[3:4])
    assert fourth == parse_sidecars(sidecars_json, hashes[3:4]) == parse_sidecars(sidecars_json, hashes)[3:4]


@pytest.mark.parametrize("proof", [{}, {"kzg_proof": None}])
def test_sidecars_without_a_proof(proof: dict[str, object], small_blobs: KnownBlobs) -> None:
    """[BCN11] In a list without an envelope as well."""
    known = small_blobs[0]
    sidecar = {"index": "0", "blob": to_hex(known.blob), "kzg_commitment": to_hex(known.commitment), **proof}
    expected = (OfferedBlob(known.blob, known.commitment, None),)
    assert parse_sidecars(body([{**sidecar, "signed_block_header": None}]), [known.hash]) == expected
    assert parse_sidecars(orjson.dumps([sidecar]), [known.hash]) == expected


@pytest.mark.parametrize("size", [1, BLOB_SIZE - 1, BLOB_SIZE + 1, 129 * BLOB_SIZE])
def test_malformed_ssz(size: int) -> None:
    with pytest.raises(BeaconResponseError):
        parse_ssz_blobs(bytes(size))
    with pytest.raises(BeaconResponseError):
        parse_ssz_sidecars(bytes(size), ())


def block(**members: object) -> bytes:
    """Return a signed beacon block with these members of its body."""
    return body({"message": {"slot": "7", "body": members}, "signature": "0x"})


def bid(**members: object) -> dict[str, object]:
    """Return a signed bid with these members."""
    return {"message": {"slot": "7", "value": "0", **members}, "signature": "0x"}


def test_commitments_of_a_beacon_block(small_blobs: KnownBlobs) -> None:
    """[BCN19] From Gloas on they are those of the block's bid, whatever else is there."""
    texts = ["0x" + known.commitment.hex() for known in small_blobs]
    expected = tuple(known.commitment for known in small_blobs)
    signed = bid(blob_kzg_commitments=texts)
    assert parse_block_commitments(block(blob_kzg_commitments=texts)) == expected
    assert parse_block_commitments(block(signed_execution_payload_bid=signed)) == expected
    both = block(signed_execution_payload_bid=signed, blob_kzg_commitments=[])
    assert parse_block_commitments(both) == expected
    assert parse_block_commitments(block(signed_execution_payload_bid=None, blob_kzg_commitments=texts)) == expected
    assert parse_block_commitments(block(signed_execution_payload_bid=bid(blob_kzg_commitments=[]))) == ()


@pytest.mark.parametrize(
    "members",
    [
        {},
        {"blob_kzg_commitments": None},
        {"blob_kzg_commitments": {}},
        {"signed_execution_payload_bid": bid()},
        {"signed_execution_payload_bid": bid(blob_kzg_commitments=None), "blob_kzg_commitments": []},
        {"signed_execution_payload_bid": {"blob_kzg_commitments": []}},
        {"signed_execution_payload_bid": [], "blob_kzg_commitments": []},
        {"signed_execution_payload_bid": bid(blob_kzg_commitments=["0x00"])},
        {"signed_execution_payload_bid": bid(blob_kzg_commitments=["0x" + "00" * 48] * 129)},
    ],
)
def test_beacon_blocks_of_other_shapes(members: dict[str, object]) -> None:
    with pytest.raises(BeaconResponseError):
        parse_block_commitments(block(**members))


@pytest.mark.parametrize("read", [parse_blobs, parse_block_commitments, parse_genesis_time])
@pytest.mark.parametrize(
    "wrong", [b"", b"<html>", b"5", b"null", b'{"data":{}}', b'{"data":["0x00"]}', b'{"data":[5]}']
)
def test_malformed_responses(read: Callable[[bytes], Any], wrong: bytes) -> None:
    with pytest.raises(BeaconResponseError):
        read(wrong)


def refs(small_blobs: KnownBlobs, indices: list[int]) -> list[BlobRef]:
    return [BlobRef(index, small_blobs[index].hash) for index in indices]


def test_blobs_are_paired_with_the_commitments_of_their_block(small_blobs: KnownBlobs) -> None:
    commitments = [known.commitment for known in small_blobs]
    for asked, offered in (([4, 1], [1, 4]), ([2], [0, 1, 2, 3, 4, 5])):
        given_blobs = [small_blobs[index].blob for index in offered]
        paired = pair_with_commitments(given_blobs, refs(small_blobs, asked), commitments)
        assert [item.commitment for item in paired] == [small_blobs[index].commitment for index in offered]
        assert [item.blob for item in paired] == given_blobs


def test_blobs_that_cannot_be_paired_have_no_commitment(small_blobs: KnownBlobs) -> None:
    offered = [known.blob for known in small_blobs[:3]]
    commitments = [known.commitment for known in small_blobs]
    for known in (None, commitments, []):
        paired = pair_with_commitments(offered, refs(small_blobs, [0, 1]), known)
        assert [item.commitment for item in paired] == [None] * 3
    wrong_block = pair_with_commitments(offered[:2], refs(small_blobs, [0, 1]), commitments[4:])
    assert [item.commitment for item in wrong_block] == [None] * 2


@pytest.mark.fault("F17")
def test_a_blob_offered_twice_counts_once(small_blobs: KnownBlobs) -> None:
    blob = small_blobs[0].blob
    assert len(pair_with_commitments([blob, blob], refs(small_blobs, [0]), None)) == 1


@pytest.mark.parametrize(
    ("genesis", "slots", "expected"),
    [
        ([1000], [12_000], (1000, 12_000)),
        ([1001, 1000], [12_000], (1000, 12_000)),
        ([1001, 1001, 1000], [12_000], (1000, 12_000)),
        ([1000], [9_000, 12_000], (1000, 12_000)),
        ([1012, 1000, 1000], [12_000], (1000, 12_000)),
        ([1012, 1000], [12_000], (1012, 12_000)),
        ([1001, 1002, 1002], [12_000], (1002, 12_000)),
        ([5000, 1001], [12_000], (5000, 12_000)),
    ],
)
def test_of_several_clocks_the_one_that_fits_l1_and_most_sources(
    genesis: list[int], slots: list[int], expected: tuple[int, int]
) -> None:
    """[BCN16]"""
    assert choose_clock(genesis, slots, 1000 + 7 * 12) == SlotClock(*expected)


NAME = "127.0.0.1:5052"
YOUNG, OLD = 60.0, RETENTION_SECONDS + 1.0


def has_none(words: str = "") -> SourceFailure:
    return SourceFailure(Failed.HAS_NONE, f"{NAME}: has no blobs of slot 7: HTTP status 404{words}")


CASES = [
    # Lighthouse 8.0 (sigp/lighthouse issue 8569) and Prysm 7 (OffchainLabs/prysm issue 16091).
    (
        SourceFailure(
            Failed.NO_ANSWER,
            f"{NAME}: HTTP status 500 (INTERNAL_SERVER_ERROR: Insufficient data columns to reconstruct blobs:"
            " required 64, but only 4 were found.)",
        ),
        OLD,
        Code.BLOB_CUSTODY,
    ),
    (
        has_none(" (Not found: the node does not custody enough data columns to reconstruct blobs)"),
        0,
        Code.BLOB_CUSTODY,
    ),
    (has_none(), OLD, Code.BLOB_EXPIRED),
    (has_none(), YOUNG, Code.BLOB_NOT_FOUND),
    (has_none(" (NOT_FOUND: beacon block at slot 7)"), YOUNG, Code.BLOB_SLOT),
    (SourceFailure(Failed.OTHER_CHAIN, "L1 time 5 is before genesis"), YOUNG, Code.BLOB_SLOT),
    (SourceFailure(Failed.OTHER_BLOBS, f"{NAME}: a blob has the hash 0x01"), YOUNG, Code.BLOB_FILTER),
    (SourceFailure(Failed.WRONG_BLOBS, f"{NAME}: a blob has the hash 0x01"), YOUNG, Code.BLOB_WRONG),
    (SourceFailure(Failed.MALFORMED, f"{NAME}: the answer is not JSON"), YOUNG, Code.BLOB_SHAPE),
    (SourceFailure(Failed.NO_ANSWER, f"{NAME}: cannot connect (Connection refused)"), OLD, Code.BLOB_UNREACHABLE),
]


@pytest.mark.fault("F13", "F14")
@pytest.mark.condition("C1")
@pytest.mark.parametrize(("failure", "age", "code"), CASES)
def test_each_failure_of_a_source_has_a_code(failure: SourceFailure, age: float, code: Code) -> None:
    assert classify([failure], age) is code


def test_the_most_telling_source_decides() -> None:
    failures = [failure for failure, _, _ in CASES]
    assert classify(failures[::-1], YOUNG) is Code.BLOB_CUSTODY
    assert classify(failures[2:], OLD) is Code.BLOB_EXPIRED
    assert classify([failures[-1], failures[-2]], OLD) is Code.BLOB_SHAPE
