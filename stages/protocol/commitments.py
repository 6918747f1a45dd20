"""Alt-DA commitments: what stands on L1 for data that a DA server keeps, and the challenges of it [AD5, ADA4 to ADA7].

Events of the DataAvailabilityChallenge contract are decoded as go-ethereum's ABI package does: a dynamic value must lie
within the bytes, and padding is not checked."""

from enum import IntEnum
from typing import NamedTuple

import msgspec

from rollup_node.stages.protocol.config import GENERIC_COMMITMENT, KECCAK_COMMITMENT
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.types import U64_MASK, Log

VERSION = 1
"""First byte of a data item that is a commitment [AD4]."""
KECCAK, GENERIC = 0, 1
COMMITMENT_TYPES = {KECCAK_COMMITMENT: KECCAK, GENERIC_COMMITMENT: GENERIC}
"""By their names in rollup.json."""
MAX_KECCAK_INPUT = 130_672
"""Bytes [CK19]."""
_KECCAK_SIZE = 32


class CommitmentError(ValueError):
    """The bytes are not a commitment."""


class Commitment(msgspec.Struct, frozen=True, array_like=True):
    """A keccak hash of 32 bytes, or bytes that only the DA server reads."""

    kind: int
    content: bytes

    def encode(self) -> bytes:
        """Return the type byte and the content."""
        return bytes((self.kind,)) + self.content

    def matches(self, data: bytes) -> bool:
        """Whether this commits to the data; what a generic commitment commits to is not known here [ADA3]."""
        return self.kind != KECCAK or keccak256(data) == self.content

    def __str__(self) -> str:
        text = self.encode()[:40].hex()
        return f"0x{text}" if len(self.content) < 40 else f"0x{text}... ({len(self.content)} bytes)"


def keccak_commitment(data: bytes) -> Commitment:
    return Commitment(KECCAK, keccak256(data))


def decode_commitment(encoded: bytes) -> Commitment:
    """Return a commitment after its version byte. Raises CommitmentError for a malformed one [AD5]."""
    if not encoded:
        raise CommitmentError("no bytes")
    kind, content = encoded[0], encoded[1:]
    if kind not in (KECCAK, GENERIC):
        raise CommitmentError(f"unknown type {kind}")
    if kind == KECCAK and len(content) != _KECCAK_SIZE:
        raise CommitmentError(f"keccak of {len(content)} bytes")
    if not content:
        raise CommitmentError("no bytes after its type")
    return Commitment(kind, content)


CHALLENGE_TOPIC = keccak256(b"ChallengeStatusChanged(uint256,bytes,uint8)")
_WORD = 32
_SELECTOR = 4


class ChallengeStatus(IntEnum):
    """The status of a challenge, as the contract numbers it."""

    UNINITIALIZED = 0
    ACTIVE = 1
    RESOLVED = 2
    EXPIRED = 3


class ChallengeError(ValueError):
    """The log or the calldata is malformed; the text says where."""


class ChallengeEvent(NamedTuple):
    """The challenge of a commitment in L1 block `block_number` has a new status, which may be an unknown number."""

    commitment: Commitment
    block_number: int
    status: int


def decode_event(log: Log) -> ChallengeEvent:
    """Return the event in a log of CHALLENGE_TOPIC [ADA5]. Raises ChallengeError."""
    status = _word(log.data, 1)
    if status > 0xFF:
        raise ChallengeError("the status has more than 8 bits")
    encoded = _dynamic(log.data, 0)
    if len(log.topics) != 2:
        raise ChallengeError(f"{len(log.topics)} topics")
    try:
        commitment = decode_commitment(encoded)
    except CommitmentError as error:
        raise ChallengeError(f"malformed commitment: {error}") from None
    # op-node keeps the low 64 bits.
    return ChallengeEvent(commitment, int.from_bytes(log.topics[1], "big") & U64_MASK, status)


def resolve_data(calldata: bytes) -> bytes:
    """Return `resolve`'s third argument in calldata with any selector [ADA7]. Raises ChallengeError."""
    arguments = calldata[_SELECTOR:]
    _word(arguments, 0)
    _dynamic(arguments, 1)
    data = _dynamic(arguments, 2)
    if not data:
        raise ChallengeError("the data is empty")
    return data


def resolves(log: Log) -> bool:
    try:
        return decode_event(log).status == ChallengeStatus.RESOLVED
    except ChallengeError:
        return False


def _word(encoded: bytes, index: int) -> int:
    end = (index + 1) * _WORD
    if len(encoded) < end:
        raise ChallengeError(f"{len(encoded)} bytes are too few")
    return int.from_bytes(encoded[end - _WORD : end], "big")


def _dynamic(encoded: bytes, index: int) -> bytes:
    """Return the bytes whose offset is the word at `index`."""
    start = _word(encoded, index) + _WORD
    if start > len(encoded):
        raise ChallengeError("an offset lies outside the data")
    end = start + int.from_bytes(encoded[start - _WORD : start], "big")
    if end > len(encoded):
        raise ChallengeError("a length reaches outside the data")
    return encoded[start:end]
