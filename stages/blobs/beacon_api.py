"""Responses of Beacon APIs, parsed strictly where it matters and leniently where servers differ
[BCN2 to BCN5, BCN10, BCN11]. All functions raise BeaconResponseError for a malformed response."""

from collections.abc import Collection, Sequence
from hashlib import sha256
from typing import Any

import msgspec
import orjson

from rollup_node.stages.blobs.kzg import BLOB_SIZE, POINT_SIZE, versioned_hash
from rollup_node.stages.protocol.hex_encoding import HexError, from_hex_sized
from rollup_node.stages.protocol.types import BlobRef, Hash

MAX_BLOBS = 256


class BeaconResponseError(ValueError):
    """The response is not what the route returns."""


class OfferedBlob(msgspec.Struct, frozen=True, array_like=True):
    """A blob that an endpoint returned, not verified yet: with the commitment it is said to have and its KZG proof, if
    any."""

    blob: bytes
    commitment: bytes | None
    proof: bytes | None


def parse_genesis_time(body: bytes) -> int:
    """The genesis time in seconds, from eth/v1/beacon/genesis."""
    return _decimal(_field(_data(body), "genesis_time"), "genesis_time")


def parse_slot_milliseconds(body: bytes) -> int:
    """The slot duration, from SLOT_DURATION_MS or SECONDS_PER_SLOT in eth/v1/config/spec."""
    spec = _data(body)
    if isinstance(spec, dict) and "SLOT_DURATION_MS" in spec:
        value = _decimal(spec["SLOT_DURATION_MS"], "SLOT_DURATION_MS")
    else:
        value = 1000 * _decimal(_field(spec, "SECONDS_PER_SLOT"), "SECONDS_PER_SLOT")
    if value == 0:
        raise BeaconResponseError("the slot duration is 0")
    return value


def parse_block_commitments(body: bytes) -> tuple[bytes, ...]:
    """The blob commitments of a beacon block, blinded or not, in the order of its blobs."""
    block = _field(_field(_data(body), "message"), "body")
    commitments = _list(_field(block, "blob_kzg_commitments"), "blob_kzg_commitments")
    return tuple(_hex(item, POINT_SIZE, "commitment") for item in commitments)


def parse_blobs(body: bytes) -> tuple[bytes, ...]:
    """The blobs in a response of eth/v1/beacon/blobs/{slot}, however many, in their order."""
    return tuple(_hex(item, BLOB_SIZE, "blob") for item in _list(_data(body), "blobs"))


def parse_sidecars(body: bytes, wanted: Collection[Hash]) -> tuple[OfferedBlob, ...]:
    """The sidecars in a response of eth/v1/beacon/blob_sidecars/{slot} whose commitments have a wanted hash."""
    found = []
    for sidecar in _list(_data(body), "blob sidecars"):
        commitment = _hex(_field(sidecar, "kzg_commitment"), POINT_SIZE, "commitment")
        if versioned_hash(commitment) in wanted:
            blob = _hex(_field(sidecar, "blob"), BLOB_SIZE, "blob")
            found.append(OfferedBlob(blob, commitment, _hex(_field(sidecar, "kzg_proof"), POINT_SIZE, "proof")))
    return tuple(found)


def pair_with_commitments(
    blobs: Sequence[bytes], requested: Sequence[BlobRef], commitments: Sequence[bytes] | None
) -> tuple[OfferedBlob, ...]:
    """Blobs without proofs, each once, paired by position with commitments of their beacon block: with those of the
    requested blobs in the order of the block if the numbers agree, or with all if as many blobs came. The endpoint does
    not say which blob is which; verification finds a wrong pairing, which only costs time."""
    guess: Sequence[bytes | None] = [None] * len(blobs)
    if commitments is not None:
        by_hash = {versioned_hash(commitment): commitment for commitment in commitments}
        in_order = [by_hash.get(ref.hash) for ref in sorted(requested, key=lambda ref: ref.index)]
        if len(blobs) == len(in_order):
            guess = in_order
        elif len(blobs) == len(commitments):
            guess = commitments
    unique: dict[bytes, OfferedBlob] = {}
    for blob, commitment in zip(blobs, guess, strict=True):
        unique.setdefault(sha256(blob).digest(), OfferedBlob(blob, commitment, None))
    return tuple(unique.values())


def _data(body: bytes) -> Any:
    """The `data` of a response; some servers return it without that envelope."""
    try:
        response = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise BeaconResponseError("the answer is not JSON") from None
    return response["data"] if isinstance(response, dict) and "data" in response else response


def _field(value: Any, name: str) -> Any:
    if not isinstance(value, dict) or name not in value:
        raise BeaconResponseError(f"the answer has no {name}")
    return value[name]


def _list(value: Any, name: str) -> list[Any]:
    if not isinstance(value, list):
        raise BeaconResponseError(f"the answer has no list of {name}")
    if len(value) > MAX_BLOBS:
        raise BeaconResponseError(f"the answer has {len(value)} {name}, more than {MAX_BLOBS}")
    return value


def _decimal(value: Any, name: str) -> int:
    text = str(value)
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise BeaconResponseError(f"{name} is not a number")
    return int(text)


def _hex(value: Any, size: int, name: str) -> bytes:
    try:
        return from_hex_sized(value, size)
    except HexError as error:
        raise BeaconResponseError(f"malformed {name}: {error}") from None
