"""Events of the DataAvailabilityChallenge contract, and the data with which a challenge is resolved [ADA5 to ADA7].

Values are decoded as go-ethereum's ABI package does: a dynamic value must lie within the bytes, and padding is not
checked."""

from enum import IntEnum
from typing import NamedTuple

from rollup_node.stages.protocol.commitments import Commitment, CommitmentError, decode_commitment
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.types import U64_MASK, Log

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
    """The event in a log of CHALLENGE_TOPIC [ADA5]. Raises ChallengeError."""
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
    """The third argument of `resolve(uint256,bytes,bytes)` in a transaction's calldata, whatever its selector [ADA7].
    Raises ChallengeError where it does not decode or is empty."""
    arguments = calldata[_SELECTOR:]
    _word(arguments, 0)
    _dynamic(arguments, 1)
    data = _dynamic(arguments, 2)
    if not data:
        raise ChallengeError("the data is empty")
    return data


def resolves(log: Log) -> bool:
    """Whether the log says that a challenge is resolved."""
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
    """The bytes whose offset is the word at `index`."""
    start = _word(encoded, index) + _WORD
    if start > len(encoded):
        raise ChallengeError("an offset lies outside the data")
    end = start + int.from_bytes(encoded[start - _WORD : start], "big")
    if end > len(encoded):
        raise ChallengeError("a length reaches outside the data")
    return encoded[start:end]
