"""Answers of Beacon API endpoints. In place of BLOB the parsers read a whole blob, which is too large for a seed."""

import orjson

from rollup_node.stages.blobs.beacon_api import (
    SIDECAR_SIZE,
    BeaconResponseError,
    OfferedBlob,
    pair_with_commitments,
    parse_blobs,
    parse_block_commitments,
    parse_genesis_time,
    parse_sidecars,
    parse_slot_milliseconds,
    parse_ssz_blobs,
    parse_ssz_sidecars,
)
from rollup_node.stages.blobs.kzg import BLOB_SIZE, POINT_SIZE, versioned_hash
from rollup_node.stages.blobs.tasks import VerifyBlobs, run
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.types import BlobRef
from rollup_node.tools.fuzz.targets.target import JSON_TOKENS, FuzzTarget, one_of

BLOB = b"@@"
COMMITMENT = b"\xc0" + bytes(POINT_SIZE - 1)
WANTED = versioned_hash(COMMITMENT)
MAX_BLOBS = 3
_HEX, _BYTES = b"00" * BLOB_SIZE, bytes(BLOB_SIZE)


def genesis(data: bytes) -> object:
    """Return the genesis time."""
    return parse_genesis_time(data) > 1 << 40


def spec(data: bytes) -> object:
    """Return the slot duration."""
    return parse_slot_milliseconds(data) > 1 << 40


def block(data: bytes) -> object:
    """Return the commitments of a beacon block, and the pairing with as many blobs."""
    block_commitments = parse_block_commitments(data)
    requested = [BlobRef(number, versioned_hash(item)) for number, item in enumerate(block_commitments[:2])]
    paired = pair_with_commitments(
        [bytes((number,)) for number in range(len(block_commitments))], requested, block_commitments
    )
    assert len(paired) == len(block_commitments)
    return min(len(block_commitments), 4)


def blobs(data: bytes) -> object:
    """Blobs in JSON."""
    return len(parse_blobs(data.replace(BLOB, _HEX, MAX_BLOBS)))


def sidecars(data: bytes) -> object:
    """Sidecars in JSON, of which those with a wanted commitment are verified."""
    return _verified(parse_sidecars(data.replace(BLOB, _HEX, MAX_BLOBS), {WANTED}))


def ssz(data: bytes) -> object:
    """Blobs and sidecars in SSZ."""
    expanded = data.replace(BLOB, _BYTES, MAX_BLOBS)
    try:
        return "blobs", len(parse_ssz_blobs(expanded))
    except BeaconResponseError:
        return _verified(parse_ssz_sidecars(expanded, {WANTED}))


def _verified(offered: tuple[OfferedBlob, ...]) -> object:
    """Whether a wanted blob was found. Blobs without a commitment that fits are not tried: that takes long."""
    if not offered or any(item.blob != _BYTES or item.proof != COMMITMENT for item in offered):
        return len(offered)
    return len(run(VerifyBlobs((WANTED,), offered)).contents)


_SIDECAR = {"index": "0", "blob": "0x" + BLOB.decode(), "kzg_commitment": to_hex(COMMITMENT)}
_SIDECAR["kzg_proof"] = to_hex(COMMITMENT)
_SSZ_SIDECAR = bytes(8) + BLOB + 2 * COMMITMENT + bytes(SIDECAR_SIZE - 8 - BLOB_SIZE - 2 * POINT_SIZE)
_COMMITMENTS = {"blob_kzg_commitments": [to_hex(COMMITMENT), to_hex(bytes(POINT_SIZE))]}
_BLOCK = {"data": {"message": {"body": _COMMITMENTS}}}
_GLOAS_BLOCK = {"message": {"body": {"signed_execution_payload_bid": {"message": _COMMITMENTS}}}}
ENDPOINT, ERRORS = "Beacon API endpoint", (BeaconResponseError,)
TARGETS = {
    "beacon-genesis": FuzzTarget(
        ENDPOINT, genesis, one_of([b'{"data":{"genesis_time":"1695902400"}}']), ERRORS, JSON_TOKENS
    ),
    "beacon-spec": FuzzTarget(
        *(ENDPOINT, spec, one_of([b'{"data":{"SECONDS_PER_SLOT":"12"}}', b'{"SLOT_DURATION_MS":12000}'])),
        *(ERRORS, JSON_TOKENS),
    ),
    "beacon-block": FuzzTarget(
        ENDPOINT, block, one_of([*map(orjson.dumps, (_BLOCK, _GLOAS_BLOCK))]), ERRORS, JSON_TOKENS
    ),
    "beacon-blobs": FuzzTarget(ENDPOINT, blobs, one_of([b'{"data":["0x@@","0x@@"]}', b"[]"]), ERRORS, JSON_TOKENS),
    "beacon-sidecars": FuzzTarget(
        ENDPOINT, sidecars, one_of([orjson.dumps({"data": [_SIDECAR]}), orjson.dumps([_SIDECAR])]), ERRORS, JSON_TOKENS
    ),
    "beacon-ssz": FuzzTarget(ENDPOINT, ssz, one_of([BLOB, 2 * BLOB, _SSZ_SIDECAR]), ERRORS),
}
"""The targets by name."""
