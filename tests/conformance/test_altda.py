"""Alt-DA commitments in place of data: parsing, and the effect of each challenge status [AD1 to AD9]."""

import pytest

from rollup_node.stages.derivation.pipeline.alt_da import (
    GENERIC,
    KECCAK,
    AltDaResolver,
    Commitment,
    CommitmentStatus,
)
from rollup_node.stages.derivation.pipeline.events import PipelineEvents
from rollup_node.stages.derivation.reasons.alt_da import (
    ChallengeExpired,
    CommitmentEmpty,
    CommitmentExpired,
    CommitmentInputTooLarge,
    CommitmentMalformed,
    CommitmentTypeMismatch,
)
from rollup_node.stages.derivation.reasons.frames import FramesVersionUnknown
from rollup_node.stages.derivation.reasons.reason import Dropped, Reason
from rollup_node.stages.messages.derivation import DropEffect
from rollup_node.stages.protocol.errors import CriticalError
from tests.conformance.kit.cases import case, table
from tests.conformance.kit.chain import forks_until
from tests.conformance.kit.ingestion import IngestionHarness
from tests.conformance.kit.notation import item

GOOD = item("A0!")
DIGEST = b"\x44" * 32
KECCAK_ITEM, GENERIC_ITEM = b"\1\0" + DIGEST, b"\1\1" + DIGEST


class Resolution:
    """A resolver, for keccak commitments by default, and what it drops."""

    def __init__(self, commitment_type: str = "KeccakCommitment") -> None:
        self.events = PipelineEvents()
        self.resolver = AltDaResolver(commitment_type, self.events)

    def is_skipped(self, data: bytes, reason: Reason) -> bool:
        """Whether the item is skipped for this reason, and the next one read."""
        assert self.resolver.resolve(data) is None
        assert (self.resolver.needed, self.resolver.reset) == (None, None)
        return self.take_reasons() == [reason] and self.resolver.resolve(GOOD) == GOOD

    def take_reasons(self) -> list[Reason]:
        found = list(self.events.drops)
        self.events.drops.clear()
        assert found == [Dropped(DropEffect.IGNORED, each.reason, None) for each in found]
        return [each.reason for each in found]


@case("altda_off_v1")
def without_alt_da() -> None:
    harness = IngestionHarness(forks_until("ecotone"))
    assert harness.read(KECCAK_ITEM) == []
    assert [each.reason for each in harness.dropped] == [FramesVersionUnknown(version=1)]


@table(altda_v0_pass=(GOOD, ["A0"], []), altda_v7_pass=(b"\7" + GOOD[1:], [], [FramesVersionUnknown]))
def passed_on(data: bytes, channels: list[str], reasons: list[type[Reason]]) -> None:
    resolution = Resolution()
    assert resolution.resolver.resolve(data) == data
    assert resolution.take_reasons() == []
    harness = IngestionHarness(forks_until("ecotone"))
    assert (harness.read(data), harness.take_reasons()) == (channels, reasons)


@table(
    altda_empty=(b"", CommitmentEmpty()),
    altda_keccak_31=(b"\1\0" + DIGEST[:31], CommitmentMalformed(error="keccak of 31 bytes")),
    altda_keccak_33=(b"\1\0" + DIGEST + b"\0", CommitmentMalformed(error="keccak of 33 bytes")),
    altda_generic_empty=(b"\1\1", CommitmentMalformed(error="no bytes after its type")),
    altda_type_2=(b"\1\2" + DIGEST, CommitmentMalformed(error="unknown type 2")),
    altda_type_mismatch=(GENERIC_ITEM, CommitmentTypeMismatch(kind=GENERIC, expected=KECCAK)),
)
def skipped(data: bytes, reason: Reason) -> None:
    assert Resolution().is_skipped(data, reason)


@case("altda_expired")
def challenge_expired() -> None:
    resolution = Resolution()
    assert resolution.resolver.resolve(KECCAK_ITEM) is None
    assert resolution.resolver.add_input(CommitmentStatus.EXPIRED) is None
    assert (resolution.resolver.needed, resolution.resolver.reset) == (None, None)
    assert resolution.take_reasons() == [CommitmentExpired(commitment=DIGEST)]
    assert resolution.resolver.resolve(GOOD) == GOOD


@case("altda_pending")
def input_not_found_yet() -> None:
    resolution = Resolution()
    resolution.resolver.resolve(KECCAK_ITEM)
    for _ in range(3):
        assert resolution.resolver.add_input(CommitmentStatus.PENDING) is None
        assert resolution.resolver.needed == Commitment(KECCAK, DIGEST)
    assert resolution.resolver.add_input(GOOD) == GOOD
    assert (resolution.resolver.needed, resolution.take_reasons()) == (None, [])


@case("altda_lost")
def unavailable_after_the_challenge_window() -> None:
    resolution = Resolution()
    resolution.resolver.resolve(KECCAK_ITEM)
    with pytest.raises(CriticalError):
        resolution.resolver.add_input(CommitmentStatus.UNAVAILABLE)


@case("altda_new_expired")
def an_earlier_one_expires() -> None:
    resolution = Resolution()
    resolution.resolver.advance_origin(any_expired=False)
    assert resolution.resolver.reset is None
    resolution.resolver.advance_origin(any_expired=True)
    assert resolution.resolver.reset == ChallengeExpired()


@case("altda_keccak_130673")
def keccak_input_too_large() -> None:
    for size, reasons in ((130_672, []), (130_673, [CommitmentInputTooLarge(size=130_673, limit=130_672)])):
        resolution = Resolution()
        resolution.resolver.resolve(KECCAK_ITEM)
        settled = resolution.resolver.add_input(bytes(size))
        assert (settled is None, resolution.take_reasons()) == (bool(reasons), reasons)
        assert resolution.resolver.needed is None


@case("altda_generic_130673")
def generic_input_of_any_size() -> None:
    resolution = Resolution("GenericCommitment")
    resolution.resolver.resolve(GENERIC_ITEM)
    assert resolution.resolver.add_input(bytes(130_673)) == bytes(130_673)
    assert resolution.take_reasons() == []
