"""Alternative data availability: commitments in place of a batcher's data, and what becomes of them
(derivation-rules 5).

Whoever fetches inputs and follows the challenge contract says how each commitment stands; nothing is fetched here."""

from enum import Enum

import msgspec

from rollup_node.stages.derivation.pipeline.events import Trace
from rollup_node.stages.derivation.reasons.reasons import Effect, Reason, Why
from rollup_node.stages.protocol.config_check import GENERIC_COMMITMENT, KECCAK_COMMITMENT
from rollup_node.stages.protocol.errors import CriticalError

VERSION = 1
KECCAK, GENERIC = 0, 1
COMMITMENT_TYPES = {KECCAK_COMMITMENT: KECCAK, GENERIC_COMMITMENT: GENERIC}
"""By the names in rollup.json."""
MAX_KECCAK_INPUT = 130_672
_KECCAK_SIZE = 32


class Commitment(msgspec.Struct, frozen=True, array_like=True):
    """What stands for data kept elsewhere: 32 bytes of keccak, or bytes that the data's keeper understands."""

    kind: int
    content: bytes


class Standing(Enum):
    """How a commitment stands whose input is not at hand."""

    PENDING = "not there yet, or challenged and not resolved"
    EXPIRED = "challenged in vain"
    LOST = "not to be had, and nobody can challenge it any more"
    REORGED = "known by another L1 chain"


def read_commitment(item: bytes) -> Commitment | Reason:
    """The commitment behind the version byte (AD5)."""
    if len(item) < 2:
        return Why.ALT_DA_COMMITMENT(problem="no bytes")
    kind, content = item[1], item[2:]
    if kind not in (KECCAK, GENERIC):
        return Why.ALT_DA_COMMITMENT(problem=f"unknown type {kind}")
    if kind == KECCAK and len(content) != _KECCAK_SIZE:
        return Why.ALT_DA_COMMITMENT(problem=f"keccak of {len(content)} bytes")
    if not content:
        return Why.ALT_DA_COMMITMENT(problem="no bytes behind its type")
    return Commitment(kind, content)


class AltDaGate:
    """Between the data items of L1 and their frames. `wanted` is the commitment whose input is waited for; nothing
    may be offered before it is settled. A reset it asks for is in `reset`."""

    def __init__(self, commitment_type: str, trace: Trace) -> None:
        self.wanted: Commitment | None = None
        self.reset: Reason | None = None
        self._kind = COMMITMENT_TYPES[commitment_type]
        self._trace = trace

    def advance(self, any_expired: bool) -> None:
        """An L1 block is taken up. If a challenge expired there, what was read since its commitment is void (AD1)."""
        if any_expired:
            self.reset = Why.ALT_DA_VOID()

    def offer(self, item: bytes) -> bytes | None:
        """The data to cut frames from; None if the item is skipped, or `wanted` until it is settled (AD3 to AD6)."""
        if not item:
            return self._skipped(Why.ALT_DA_EMPTY())
        if item[0] != VERSION:
            return item
        found = read_commitment(item)
        if isinstance(found, Reason):
            return self._skipped(found)
        if found.kind != self._kind:
            return self._skipped(Why.ALT_DA_KIND(kind=found.kind, expected=self._kind))
        self.wanted = found
        return None

    def settle(self, answer: bytes | Standing) -> bytes | None:
        """The input of the commitment that is wanted, or how it stands. None if it is skipped or still wanted (AD6 to
        AD8). Input that is lost raises CriticalError: the chain cannot go on without it."""
        commitment = self.wanted
        if commitment is None:
            raise CriticalError("the input of a commitment that was not asked for")
        if answer is Standing.PENDING:
            return None
        if answer is Standing.LOST:
            raise CriticalError(f"the input of commitment 0x{commitment.content.hex()[:128]} is lost")
        if answer is Standing.REORGED:
            self.reset = Why.ALT_DA_REORG(commitment=commitment.content)
            return None
        self.wanted = None
        if isinstance(answer, Standing):
            return self._skipped(Why.ALT_DA_EXPIRED(commitment=commitment.content))
        if commitment.kind == KECCAK and len(answer) > MAX_KECCAK_INPUT:
            return self._skipped(Why.ALT_DA_SIZE(size=len(answer), limit=MAX_KECCAK_INPUT))
        return answer

    def _skipped(self, reason: Reason) -> bytes | None:
        self._trace.note(Effect.IGNORED, reason)
        return None
