"""Responses of Beacon APIs, strict where it matters and lenient where servers differ.

Rules BCN2 to BCN5, BCN10, BCN11, BCN19. All functions raise BeaconResponseError for a malformed response."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence, Sized
from enum import Enum, auto
from functools import cache
from hashlib import sha256
from typing import Any, NamedTuple, TypeVar

import msgspec

from rollup_node.stages.blobs.kzg import BLOB_SIZE, POINT_SIZE, versioned_hash
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.foreign_json import MalformedJsonError, decode_json
from rollup_node.stages.protocol.hex_encoding import from_hex_sized
from rollup_node.stages.protocol.types import BlobRef, Hash

S = TypeVar("S", bound=Sized)

MAX_BLOBS = 128
"""More than any schedule of blob parameters (EIP-7892) has had."""

SIDECAR_SIZE = 8 + BLOB_SIZE + 2 * POINT_SIZE + 208 + 17 * 32
"""Bytes of a blob sidecar in SSZ."""

MAX_VALUES = 500_000
"""JSON values in a response; the largest is a beacon block with its transactions and attestations."""


class BeaconResponseError(ValueError):
    """The response is not what the route returns."""


class OfferedBlob(msgspec.Struct, frozen=True, array_like=True):
    """A blob that an endpoint returned, unverified, with its alleged commitment and KZG proof, if any."""

    blob: bytes
    commitment: bytes | None
    proof: bytes | None


class _Genesis(msgspec.Struct):
    genesis_time: int | str


class _Spec(msgspec.Struct):
    SLOT_DURATION_MS: int | str | None = None
    SECONDS_PER_SLOT: int | str | None = None


class _Commitments(msgspec.Struct):
    blob_kzg_commitments: list[msgspec.Raw]


class _SignedBid(msgspec.Struct):
    message: _Commitments


class _BlockBody(msgspec.Struct):
    signed_execution_payload_bid: _SignedBid | None = None
    blob_kzg_commitments: list[msgspec.Raw] | None = None


class _Message(msgspec.Struct):
    body: _BlockBody


class _Block(msgspec.Struct):
    message: _Message


_NULL = msgspec.Raw(b"null")


class _Sidecar(msgspec.Struct):
    blob: msgspec.Raw
    kzg_commitment: msgspec.Raw
    kzg_proof: msgspec.Raw = _NULL


def parse_genesis_time(body: bytes) -> int:
    """Return the genesis time in seconds, from eth/v1/beacon/genesis."""
    return _decimal(_data(body, _Genesis).genesis_time, "genesis_time")


def parse_slot_milliseconds(body: bytes) -> int:
    """Return the slot duration in eth/v1/config/spec: SLOT_DURATION_MS or SECONDS_PER_SLOT; null is absent [BCN3]."""
    spec = _data(body, _Spec)
    if spec.SLOT_DURATION_MS is not None:
        value = _decimal(spec.SLOT_DURATION_MS, "SLOT_DURATION_MS")
    else:
        value = 1000 * _decimal(spec.SECONDS_PER_SLOT, "SECONDS_PER_SLOT")
    if value == 0:
        raise BeaconResponseError("the slot duration is 0")
    return value


def parse_block_commitments(body: bytes) -> tuple[bytes, ...]:
    """Return a beacon block's blob commitments in order, blinded or not, from Gloas on those of its bid [BCN19]."""
    result = _data(body, _Block).message.body
    bid = result.signed_execution_payload_bid
    commitments = result.blob_kzg_commitments if bid is None else bid.message.blob_kzg_commitments
    if commitments is None:
        raise BeaconResponseError("the beacon block has no blob_kzg_commitments and no signed_execution_payload_bid")
    return tuple(_hex(item, POINT_SIZE, "commitment") for item in _bounded(commitments, "blob_kzg_commitments"))


def parse_blobs(body: bytes) -> tuple[bytes, ...]:
    """Return the blobs in a response of eth/v1/beacon/blobs/{slot}, however many, in their order."""
    return tuple(_hex(item, BLOB_SIZE, "blob") for item in _bounded(_data(body, list[msgspec.Raw]), "blobs"))


def parse_sidecars(body: bytes, wanted: Collection[Hash]) -> tuple[OfferedBlob, ...]:
    """Return the sidecars with a wanted hash in a blob_sidecars response, a null proof as none [BCN11]."""
    result = []
    for sidecar in _bounded(_data(body, list[_Sidecar]), "blob sidecars"):
        commitment = _hex(sidecar.kzg_commitment, POINT_SIZE, "commitment")
        if versioned_hash(commitment) in wanted:
            blob = _hex(sidecar.blob, BLOB_SIZE, "blob")
            proof = None if sidecar.kzg_proof == _NULL else _hex(sidecar.kzg_proof, POINT_SIZE, "proof")
            result.append(OfferedBlob(blob, commitment, proof))
    return tuple(result)


def parse_ssz_blobs(body: bytes) -> tuple[bytes, ...]:
    """As `parse_blobs`, of a response in SSZ: the blobs one after the other."""
    return tuple(_ssz_items(body, BLOB_SIZE, "blobs"))


def parse_ssz_sidecars(body: bytes, wanted: Collection[Hash]) -> tuple[OfferedBlob, ...]:
    """Parse sidecars in SSZ: index, blob, commitment, proof, signed header, inclusion proof (Deneb, `BlobSidecar`)."""
    result = []
    for sidecar in _ssz_items(body, SIDECAR_SIZE, "blob sidecars"):
        blob_end, commitment_end = 8 + BLOB_SIZE, 8 + BLOB_SIZE + POINT_SIZE
        commitment = sidecar[blob_end:commitment_end]
        if versioned_hash(commitment) in wanted:
            proof = sidecar[commitment_end : commitment_end + POINT_SIZE]
            result.append(OfferedBlob(sidecar[8:blob_end], commitment, proof))
    return tuple(result)


def _ssz_items(body: bytes, size: int, name: str) -> Iterator[bytes]:
    count, rest = divmod(len(body), size)
    if rest:
        raise BeaconResponseError(f"the answer has {len(body)} bytes, no multiple of {size}, the size of {name}")
    _bounded(range(count), name)
    return (body[start : start + size] for start in range(0, len(body), size))


def pair_with_commitments(
    blobs: Sequence[bytes], requested: Sequence[BlobRef], commitments: Sequence[bytes] | None
) -> tuple[OfferedBlob, ...]:
    """Pair blobs without proofs by position with the commitments of their beacon block.

    With those of the requested blobs in the order of the block if the numbers agree, or with all if as many blobs came.
    The endpoint does not say which blob is which; verification finds a wrong pairing, which only costs time."""
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


def _data(body: bytes, shape: Any) -> Any:
    """Return the `data` of a response as a value of that type; some servers return it without that envelope."""
    try:
        if body.lstrip()[:1] == b"{":
            envelope = decode_json(body, _envelope(shape), MAX_VALUES)
            if envelope.data is not msgspec.UNSET:
                return envelope.data
        return decode_json(body, shape, MAX_VALUES)
    except MalformedJsonError as error:
        raise BeaconResponseError(str(error)) from None


@cache
def _envelope(shape: Any) -> type[msgspec.Struct]:
    return msgspec.defstruct("Envelope", [("data", shape | msgspec.UnsetType, msgspec.UNSET)])


def _bounded(items: S, name: str) -> S:
    if len(items) > MAX_BLOBS:
        raise BeaconResponseError(f"the answer has {len(items)} {name}, more than {MAX_BLOBS}")
    return items


def _decimal(value: Any, name: str) -> int:
    text = str(value)
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise BeaconResponseError(f"{name} is not a number")
    return int(text)


def _hex(value: msgspec.Raw, size: int, name: str) -> bytes:
    """Return the bytes of one hex string, decoded by itself: all at once would take the response's size again."""
    try:
        return from_hex_sized(msgspec.json.decode(value, type=str), size)
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        raise BeaconResponseError(f"malformed {name}: {error}") from None


class BeforeGenesisError(ValueError):
    """The time is before the beacon chain's genesis."""


class SlotClock(msgspec.Struct, frozen=True):
    """`genesis_time` in seconds, `slot_ms` in milliseconds."""

    genesis_time: int
    slot_ms: int

    def __str__(self) -> str:
        return f"genesis time {self.genesis_time}, {self.slot_ms} ms a slot"

    def slot_at(self, timestamp: int) -> int:
        """Return the slot of a time in seconds [BCN7]. Raises BeforeGenesisError."""
        if timestamp < self.genesis_time:
            raise BeforeGenesisError(
                f"L1 time {timestamp} is before the beacon chain's genesis at {self.genesis_time}: "
                "the beacon endpoint belongs to another chain"
            )
        return (timestamp - self.genesis_time) * 1000 // self.slot_ms

    def starts_slot(self, timestamp: int) -> bool:
        """Whether a slot starts at a time in seconds, as one does at that of every L1 block."""
        return timestamp >= self.genesis_time and (timestamp - self.genesis_time) * 1000 % self.slot_ms == 0


def choose_clock(genesis_times: Sequence[int], slots_ms: Sequence[int], timestamp: int) -> SlotClock:
    """Return the clock that fits an L1 block's time, of several the most stated, then the first [BCN16]."""
    votes, durations = Counter(genesis_times), Counter(slots_ms)
    clocks = [SlotClock(genesis, slot_ms) for genesis in votes for slot_ms in durations]
    return max(
        clocks, key=lambda clock: (clock.starts_slot(timestamp), votes[clock.genesis_time] + durations[clock.slot_ms])
    )


RETENTION_SECONDS = 4096 * 32 * 12
"""How long beacon nodes must keep blobs: MIN_EPOCHS_FOR_BLOB_SIDECARS_REQUESTS epochs of Ethereum's slots."""

_CUSTODY = ("custod", "data column", "supernode", "columns", "reconstruct")
"""Words of beacon nodes that lack data columns: Lighthouse, Prysm, Teku, Lodestar and Nimbus say it differently."""
_NO_BLOCK = ("block not found", "no block", "beacon block", "block was not found")


class Failed(Enum):
    """What a source did instead of returning the blobs."""

    HAS_NONE = auto()
    """It answered that it does not have them."""
    OTHER_BLOBS = auto()
    """It returned blobs, and none of those wanted."""
    WRONG_BLOBS = auto()
    """What it returned does not have the wanted hashes, or is less than what was asked for."""
    OTHER_CHAIN = auto()
    """Its genesis is after the L1 block."""
    MALFORMED = auto()
    NO_ANSWER = auto()
    """It did not answer, or refused."""
    NO_SOURCE = auto()
    """There is none."""


class SourceFailure(NamedTuple):
    """The failure of one source, in words that include its own."""

    failed: Failed
    text: str


def classify(failures: Sequence[SourceFailure], age: float) -> Code:
    """Return the code for the failures of all sources, by the most telling one; `age` is that of the L1 block in s."""
    codes = [_code(failure, age) for failure in failures]
    return min(codes, key=_PRIORITY.index)


_PRIORITY = (
    Code.BLOB_CUSTODY,
    Code.BLOB_EXPIRED,
    Code.BLOB_FILTER,
    Code.BLOB_WRONG,
    Code.BLOB_SLOT,
    Code.BLOB_NOT_FOUND,
    Code.BLOB_SHAPE,
    Code.BLOB_UNREACHABLE,
    Code.BLOB_NO_SOURCE,
)


def _code(failure: SourceFailure, age: float) -> Code:
    words = failure.text.lower()
    if failure.failed is not Failed.WRONG_BLOBS and any(item in words for item in _CUSTODY):
        return Code.BLOB_CUSTODY
    if failure.failed is Failed.HAS_NONE:
        if age > RETENTION_SECONDS:
            return Code.BLOB_EXPIRED
        return Code.BLOB_SLOT if any(item in words for item in _NO_BLOCK) else Code.BLOB_NOT_FOUND
    return _CODES[failure.failed]


_CODES = {
    Failed.OTHER_BLOBS: Code.BLOB_FILTER,
    Failed.WRONG_BLOBS: Code.BLOB_WRONG,
    Failed.OTHER_CHAIN: Code.BLOB_SLOT,
    Failed.MALFORMED: Code.BLOB_SHAPE,
    Failed.NO_ANSWER: Code.BLOB_UNREACHABLE,
    Failed.NO_SOURCE: Code.BLOB_NO_SOURCE,
}
