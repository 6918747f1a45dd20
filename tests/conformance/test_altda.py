"""Commitments in place of data (derivation-rules 5): how they are read, and what each standing of one leads to."""

import pytest

from rollup_node.stages.derivation.pipeline.alt_da import (
    GENERIC,
    KECCAK,
    AltDaResolver,
    Commitment,
    CommitmentStatus,
    read_commitment,
)
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
from rollup_node.stages.derivation.reasons.frames import FramesVersionUnknown
from rollup_node.stages.derivation.reasons.reason import Dropped, Reason
from rollup_node.stages.messages.derivation import DropEffect
from rollup_node.stages.protocol.errors import CriticalError
from tests.conformance.kit.cases import case, table
from tests.conformance.kit.chain import forks_until
from tests.conformance.kit.intake import Front
from tests.conformance.kit.notation import item

GOOD = item("A0!")
DIGEST = b"\x44" * 32
KECCAK_ITEM, GENERIC_ITEM = b"\1\0" + DIGEST, b"\1\1" + DIGEST


class Gate:
    """A gate for keccak commitments, unless said."""

    def __init__(self, commitment_type: str = "KeccakCommitment") -> None:
        self.events = PipelineEvents()
        self.gate = AltDaResolver(commitment_type, self.events)

    def is_skipped(self, data: bytes, reason: Reason) -> bool:
        """Whether the item is skipped for this reason, and the next one read."""
        assert self.gate.resolve(data) is None
        assert (self.gate.needed, self.gate.reset) == (None, None)
        return self.said() == [reason] and self.gate.resolve(GOOD) == GOOD

    def said(self) -> list[Reason]:
        found = list(self.events.drops)
        self.events.drops.clear()
        assert found == [Dropped(DropEffect.IGNORED, each.reason, None) for each in found]
        return [each.reason for each in found]


@case("altda_off_v1")
def without_it() -> None:
    front = Front(forks_until("ecotone"))
    assert front.read(KECCAK_ITEM) == []
    assert [each.reason for each in front.dropped] == [FramesVersionUnknown(version=1)]


@table(altda_v0_pass=(GOOD, ["A0"], []), altda_v7_pass=(b"\7" + GOOD[1:], [], [FramesVersionUnknown]))
def passed_on(data: bytes, channels: list[str], whys: list[type[Reason]]) -> None:
    gate = Gate()
    assert gate.gate.resolve(data) == data
    assert gate.said() == []
    front = Front(forks_until("ecotone"))
    assert (front.read(data), front.whys) == (channels, whys)


@table(
    altda_empty=(b"", CommitmentEmpty()),
    altda_keccak_31=(b"\1\0" + DIGEST[:31], CommitmentMalformed(error="keccak of 31 bytes")),
    altda_keccak_33=(b"\1\0" + DIGEST + b"\0", CommitmentMalformed(error="keccak of 33 bytes")),
    altda_generic_empty=(b"\1\1", CommitmentMalformed(error="no bytes after its type")),
    altda_type_2=(b"\1\2" + DIGEST, CommitmentMalformed(error="unknown type 2")),
    altda_type_mismatch=(GENERIC_ITEM, CommitmentTypeMismatch(kind=GENERIC, expected=KECCAK)),
)
def skipped(data: bytes, reason: Reason) -> None:
    assert Gate().is_skipped(data, reason)


def test_a_version_byte_alone_is_skipped() -> None:
    assert Gate().is_skipped(b"\1", CommitmentMalformed(error="no bytes"))
    assert read_commitment(GENERIC_ITEM) == Commitment(GENERIC, DIGEST)


@case("altda_expired")
def challenge_expired() -> None:
    gate = Gate()
    assert gate.gate.resolve(KECCAK_ITEM) is None
    assert gate.gate.add_input(CommitmentStatus.EXPIRED) is None
    assert (gate.gate.needed, gate.gate.reset) == (None, None)
    assert gate.said() == [CommitmentExpired(commitment=DIGEST)]
    assert gate.gate.resolve(GOOD) == GOOD


@case("altda_pending")
def not_there_yet() -> None:
    gate = Gate()
    gate.gate.resolve(KECCAK_ITEM)
    for _ in range(3):
        assert gate.gate.add_input(CommitmentStatus.PENDING) is None
        assert gate.gate.needed == Commitment(KECCAK, DIGEST)
    assert gate.gate.add_input(GOOD) == GOOD
    assert (gate.gate.needed, gate.said()) == (None, [])


@case("altda_lost")
def lost_for_good() -> None:
    gate = Gate()
    gate.gate.resolve(KECCAK_ITEM)
    with pytest.raises(CriticalError):
        gate.gate.add_input(CommitmentStatus.UNAVAILABLE)


@case("altda_new_expired")
def an_earlier_one_expires() -> None:
    gate = Gate()
    gate.gate.advance_origin(any_expired=False)
    assert gate.gate.reset is None
    gate.gate.advance_origin(any_expired=True)
    assert gate.gate.reset == ChallengeExpired()


def test_another_l1_chain_asks_for_a_reset() -> None:
    gate = Gate()
    gate.gate.resolve(KECCAK_ITEM)
    assert gate.gate.add_input(CommitmentStatus.REORGED) is None
    assert gate.gate.reset == CommitmentReorged(commitment=DIGEST)


@case("altda_keccak_130673")
def keccak_input_too_large() -> None:
    for size, reasons in ((130_672, []), (130_673, [CommitmentInputTooLarge(size=130_673, limit=130_672)])):
        gate = Gate()
        gate.gate.resolve(KECCAK_ITEM)
        settled = gate.gate.add_input(bytes(size))
        assert (settled is None, gate.said()) == (bool(reasons), reasons)
        assert gate.gate.needed is None


@case("altda_generic_130673")
def generic_input_of_any_size() -> None:
    gate = Gate("GenericCommitment")
    gate.gate.resolve(GENERIC_ITEM)
    assert gate.gate.add_input(bytes(130_673)) == bytes(130_673)
    assert gate.said() == []
