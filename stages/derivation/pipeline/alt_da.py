"""Alt-DA: commitments in place of the batcher's data, and what their state means for derivation.

Inputs are fetched and challenges followed elsewhere; this module only decides the result of each data item. Networks
with Alt-DA are refused at start until the rest exists."""

from enum import Enum

import msgspec

from rollup_node.stages.derivation.pipeline.events import PipelineEvents
from rollup_node.stages.derivation.reasons.alt_da import (
    ChallengeExpired,
    CommitmentEmpty,
    CommitmentExpired,
    CommitmentInputTooLarge,
    CommitmentMalformed,
    CommitmentReorged,
    CommitmentTypeMismatch,
)
from rollup_node.stages.derivation.reasons.reason import Reason
from rollup_node.stages.messages.derivation import DropEffect
from rollup_node.stages.protocol.config_check import GENERIC_COMMITMENT, KECCAK_COMMITMENT
from rollup_node.stages.protocol.errors import CriticalError

VERSION = 1
KECCAK, GENERIC = 0, 1
COMMITMENT_TYPES = {KECCAK_COMMITMENT: KECCAK, GENERIC_COMMITMENT: GENERIC}
"""By their names in rollup.json."""
MAX_KECCAK_INPUT = 130_672
"""Bytes [CK19]."""
_KECCAK_SIZE = 32


class Commitment(msgspec.Struct, frozen=True, array_like=True):
    """What stands for data that a DA server keeps: a keccak hash of 32 bytes, or bytes that only the server reads."""

    kind: int
    content: bytes


class CommitmentStatus(Enum):
    """The state of a commitment whose input is not there [AD6]."""

    PENDING = "not found yet, or challenged and not resolved"
    EXPIRED = "its challenge expired"
    UNAVAILABLE = "not found, and the challenge window has passed"
    REORGED = "known on another L1 chain"


def read_commitment(item: bytes) -> Commitment | Reason:
    """The commitment after the version byte, or why it is malformed [AD5]."""
    if len(item) < 2:
        return CommitmentMalformed("no bytes")
    kind, content = item[1], item[2:]
    if kind not in (KECCAK, GENERIC):
        return CommitmentMalformed(f"unknown type {kind}")
    if kind == KECCAK and len(content) != _KECCAK_SIZE:
        return CommitmentMalformed(f"keccak of {len(content)} bytes")
    if not content:
        return CommitmentMalformed("no bytes after its type")
    return Commitment(kind, content)


class AltDaResolver:
    """Between the data items of L1 and frame parsing. `needed` is the commitment whose input is missing; no item may be
    resolved before it is there. `reset` is the reason of a reset that it asks for."""

    def __init__(self, commitment_type: str, events: PipelineEvents) -> None:
        self.needed: Commitment | None = None
        self.reset: Reason | None = None
        self._kind = COMMITMENT_TYPES[commitment_type]
        self._events = events

    def advance_origin(self, any_expired: bool) -> None:
        """Moves to another L1 block. If a challenge expires there, what was read since its commitment is void [AD1]."""
        if any_expired:
            self.reset = ChallengeExpired()

    def resolve(self, item: bytes) -> bytes | None:
        """The data to parse frames from; None if the item is skipped or its input is `needed` [AD3 to AD6]."""
        if not item:
            return self._skip(CommitmentEmpty())
        if item[0] != VERSION:
            return item
        found = read_commitment(item)
        if isinstance(found, Reason):
            return self._skip(found)
        if found.kind != self._kind:
            return self._skip(CommitmentTypeMismatch(found.kind, self._kind))
        self.needed = found
        return None

    def add_input(self, answer: bytes | CommitmentStatus) -> bytes | None:
        """Brings the input that is needed, or the state of its commitment; None if it is skipped or still needed [AD6
        to AD8]. Raises CriticalError if it is unavailable, since derivation cannot continue without it."""
        commitment = self.needed
        if commitment is None:
            raise CriticalError("the input of a commitment that is not needed")
        if answer is CommitmentStatus.PENDING:
            return None
        if answer is CommitmentStatus.UNAVAILABLE:
            raise CriticalError(f"the input of commitment 0x{commitment.content.hex()[:128]} is unavailable")
        if answer is CommitmentStatus.REORGED:
            self.reset = CommitmentReorged(commitment.content)
            return None
        self.needed = None
        if isinstance(answer, CommitmentStatus):
            return self._skip(CommitmentExpired(commitment.content))
        if commitment.kind == KECCAK and len(answer) > MAX_KECCAK_INPUT:
            return self._skip(CommitmentInputTooLarge(len(answer), MAX_KECCAK_INPUT))
        return answer

    def _skip(self, reason: Reason) -> bytes | None:
        self._events.drop(DropEffect.IGNORED, reason)
        return None
