"""What Beacon API endpoints answer, read strictly where it matters and leniently where servers differ."""

from collections.abc import Collection, Sequence
from hashlib import sha256
from typing import Any

import msgspec
import orjson

from rollup_node.stages.blobs.kzg import BLOB_SIZE, versioned_hash
from rollup_node.stages.protocol.hex_encoding import HexError, from_hex_sized
from rollup_node.stages.protocol.types import BlobRef, Hash

MAX_BLOBS = 256
_COMMITMENT_SIZE = 48


class AnswerError(ValueError):
    """The answer is not what the endpoint should give."""


class Candidate(msgspec.Struct, frozen=True, array_like=True):
    """A blob that an endpoint offers, with the commitment it is said to have and the proof of it, if any."""

    blob: bytes
    commitment: bytes | None
    proof: bytes | None


def genesis_time(body: bytes) -> int:
    """From eth/v1/beacon/genesis, in seconds."""
    return _decimal(_field(_data(body), "genesis_time"), "genesis_time")


def slot_milliseconds(body: bytes) -> int:
    """From eth/v1/config/spec: SLOT_DURATION_MS, or SECONDS_PER_SLOT."""
    spec = _data(body)
    if isinstance(spec, dict) and "SLOT_DURATION_MS" in spec:
        value = _decimal(spec["SLOT_DURATION_MS"], "SLOT_DURATION_MS")
    else:
        value = 1000 * _decimal(_field(spec, "SECONDS_PER_SLOT"), "SECONDS_PER_SLOT")
    if value == 0:
        raise AnswerError("the slot duration is 0")
    return value


def block_commitments(body: bytes) -> tuple[bytes, ...]:
    """The blob commitments of a beacon block, blinded or not, in the order of its blobs."""
    block = _field(_field(_data(body), "message"), "body")
    commitments = _list(_field(block, "blob_kzg_commitments"), "blob_kzg_commitments")
    return tuple(_hex(item, _COMMITMENT_SIZE, "commitment") for item in commitments)


def blobs(body: bytes) -> tuple[bytes, ...]:
    """From eth/v1/beacon/blobs/{slot}: as many as there are, in the order given."""
    return tuple(_hex(item, BLOB_SIZE, "blob") for item in _list(_data(body), "blobs"))


def sidecars(body: bytes, wanted: Collection[Hash]) -> tuple[Candidate, ...]:
    """From eth/v1/beacon/blob_sidecars/{slot}: those whose commitment has a wanted hash."""
    found = []
    for sidecar in _list(_data(body), "blob sidecars"):
        commitment = _hex(_field(sidecar, "kzg_commitment"), _COMMITMENT_SIZE, "commitment")
        if versioned_hash(commitment) in wanted:
            blob = _hex(_field(sidecar, "blob"), BLOB_SIZE, "blob")
            found.append(Candidate(blob, commitment, _hex(_field(sidecar, "kzg_proof"), _COMMITMENT_SIZE, "proof")))
    return tuple(found)


def with_commitments(
    offered: Sequence[bytes], asked: Sequence[BlobRef], commitments: Sequence[bytes] | None
) -> tuple[Candidate, ...]:
    """Blobs without proofs paired with the commitments that the beacon block suggests for them: those of the blobs
    asked for, in the order of the block, or all of the block's when that many came. A wrong pairing is found out by
    the check and costs time only."""
    guess: Sequence[bytes | None] = [None] * len(offered)
    if commitments is not None:
        by_hash = {versioned_hash(commitment): commitment for commitment in commitments}
        in_order = [by_hash.get(ref.hash) for ref in sorted(asked, key=lambda ref: ref.index)]
        if len(offered) == len(in_order):
            guess = in_order
        elif len(offered) == len(commitments):
            guess = commitments
    unique: dict[bytes, Candidate] = {}
    for blob, commitment in zip(offered, guess, strict=True):
        unique.setdefault(sha256(blob).digest(), Candidate(blob, commitment, None))
    return tuple(unique.values())


def _data(body: bytes) -> Any:
    """The `data` of an answer; some servers give it bare."""
    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise AnswerError("the answer is not JSON") from None
    return answer["data"] if isinstance(answer, dict) and "data" in answer else answer


def _field(value: Any, name: str) -> Any:
    if not isinstance(value, dict) or name not in value:
        raise AnswerError(f"the answer has no {name}")
    return value[name]


def _list(value: Any, name: str) -> list[Any]:
    if not isinstance(value, list):
        raise AnswerError(f"the answer has no list of {name}")
    if len(value) > MAX_BLOBS:
        raise AnswerError(f"the answer has {len(value)} {name}, more than {MAX_BLOBS}")
    return value


def _decimal(value: Any, name: str) -> int:
    text = str(value)
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise AnswerError(f"{name} is not a number")
    return int(text)


def _hex(value: Any, size: int, name: str) -> bytes:
    try:
        return from_hex_sized(value, size)
    except HexError as error:
        raise AnswerError(f"malformed {name}: {error}") from None
