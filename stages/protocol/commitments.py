"""Alt-DA commitments: what stands on L1 for data that a DA server keeps [AD5, ADA4]."""

import msgspec

from rollup_node.stages.protocol.config_check import GENERIC_COMMITMENT, KECCAK_COMMITMENT
from rollup_node.stages.protocol.keccak import keccak256

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
        """The type byte and the content."""
        return bytes((self.kind,)) + self.content

    def matches(self, data: bytes) -> bool:
        """Whether this commits to the data; what a generic commitment commits to is not known here [ADA3]."""
        return self.kind != KECCAK or keccak256(data) == self.content

    def __str__(self) -> str:
        text = self.encode()[:40].hex()
        return f"0x{text}" if len(self.content) < 40 else f"0x{text}... ({len(self.content)} bytes)"


def keccak_commitment(data: bytes) -> Commitment:
    """The keccak commitment to the data."""
    return Commitment(KECCAK, keccak256(data))


def decode_commitment(encoded: bytes) -> Commitment:
    """A commitment after its version byte. Raises CommitmentError for a malformed one [AD5]."""
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
