"""Alt-DA commitments in place of data: parsing, and what becomes of each input [AD1 to AD14]."""

import msgspec
import pytest

from rollup_node.stages.derivation.pipeline.alt_da import AltDaResolver
from rollup_node.stages.derivation.pipeline.outputs import NeedChallenges, NeedInput, PipelineEvents
from rollup_node.stages.derivation.reasons import l1 as l1_reasons
from rollup_node.stages.derivation.reasons.reason import AnyKind, Dropped, Reason
from rollup_node.stages.messages.derivation import DropEffect
from rollup_node.stages.protocol.commitments import GENERIC, KECCAK, Commitment
from rollup_node.stages.protocol.errors import CriticalError
from rollup_node.stages.protocol.types import ChallengeLog
from tests.conformance.kit.alt_da import ALT_DA, RESOLVE, WINDOW, challenge_log, with_challenges
from tests.conformance.kit.cases import CoveredCases, case, table
from tests.conformance.kit.chain import FIRST_L1, L1Blocks, forks_until
from tests.conformance.kit.ingestion import IngestionHarness
from tests.conformance.kit.notation import item

pytestmark = pytest.mark.fault("F61")

GOOD = item("A0!")
DIGEST = b"\x44" * 32
COMMITMENT = Commitment(KECCAK, DIGEST)
KECCAK_ITEM, GENERIC_ITEM = b"\1\0" + DIGEST, b"\1\1" + DIGEST


class Resolution:
    """A resolver at the first L1 block, for keccak commitments by default, and what it drops."""

    def __init__(self, commitment_type: str = "KeccakCommitment") -> None:
        self.events = PipelineEvents()
        config = msgspec.structs.replace(ALT_DA, commitment_type=commitment_type)
        self.resolver = AltDaResolver(config, 100, self.events)
        self.l1 = L1Blocks()
        self.resolver.open(self.l1.last)

    def resolve(self, data: bytes) -> bytes | NeedInput | NeedChallenges | None:
        """Read an item; what follows."""
        self.resolver.resolve(data, self.l1[FIRST_L1].ref)
        return self.resolver.next()

    def add_challenges(self, *logs: ChallengeLog) -> None:
        """The next L1 block, read ahead."""
        assert self.resolver.add_challenges(with_challenges(self.l1.add(), logs))

    def take_reasons(self, effect: DropEffect = DropEffect.IGNORED) -> list[Reason]:
        drops = list(self.events.drops)
        self.events.drops.clear()
        assert [entry.effect for entry in drops] == [effect] * len(drops)
        assert all(isinstance(entry, Dropped) for entry in drops)
        return [entry.reason for entry in drops]


@case("altda_off_v1")
def without_alt_da() -> None:
    harness = IngestionHarness(forks_until("ecotone"))
    assert harness.read(KECCAK_ITEM) == []
    assert [entry.reason for entry in harness.dropped] == [l1_reasons.FramesVersionUnknown(1)]


@table(altda_v0_pass=(GOOD, ["A0"], []), altda_v7_pass=(b"\7" + GOOD[1:], [], [l1_reasons.FramesVersionUnknown]))
def passed_on(data: bytes, channels: list[str], reasons: list[AnyKind]) -> None:
    resolver = Resolution().resolver
    harness = IngestionHarness(forks_until("ecotone"), resolver)
    assert (harness.read(data), harness.take_reasons()) == (channels, reasons)
    assert resolver.needed is None


@table(
    altda_empty=(b"", l1_reasons.CommitmentEmpty()),
    altda_keccak_31=(b"\1\0" + DIGEST[:31], l1_reasons.CommitmentMalformed("keccak of 31 bytes")),
    altda_keccak_33=(b"\1\0" + DIGEST + b"\0", l1_reasons.CommitmentMalformed("keccak of 33 bytes")),
    altda_generic_empty=(b"\1\1", l1_reasons.CommitmentMalformed("no bytes after its type")),
    altda_type_2=(b"\1\2" + DIGEST, l1_reasons.CommitmentMalformed("unknown type 2")),
    altda_type_mismatch=(GENERIC_ITEM, l1_reasons.CommitmentTypeMismatch(GENERIC, KECCAK)),
)
def skipped(data: bytes, reason: Reason) -> None:
    resolution = Resolution()
    assert resolution.resolve(data) is None
    assert resolution.resolver.needed is None
    assert resolution.take_reasons() == [reason]
    harness = IngestionHarness(forks_until("ecotone"), Resolution().resolver)
    assert harness.read(data, GOOD) == ["A0"], "the next item follows"


@case("altda_expired")
def challenge_expired() -> None:
    resolution = Resolution()
    assert isinstance(resolution.resolve(KECCAK_ITEM), NeedInput)
    assert resolution.resolver.input_not_found(COMMITMENT)
    resolution.add_challenges(challenge_log(COMMITMENT, FIRST_L1))
    for _ in range(RESOLVE):
        assert resolution.resolver.next() == NeedChallenges(resolution.l1.last.header.number + 1)
        resolution.add_challenges()
    assert resolution.resolver.next() is None
    assert resolution.resolver.needed is None
    assert resolution.take_reasons(DropEffect.DROPPED) == [l1_reasons.CommitmentExpired(DIGEST)]


@case("altda_pending")
def input_not_found_yet() -> None:
    resolution = Resolution()
    need = resolution.resolve(KECCAK_ITEM)
    assert need == NeedInput(resolution.l1[FIRST_L1].ref, COMMITMENT)
    assert resolution.resolver.next() == need
    for number in range(3):
        assert resolution.resolver.input_not_found(COMMITMENT)
        assert resolution.resolver.next() == NeedChallenges(FIRST_L1 + number + 1)
        resolution.add_challenges()
        assert resolution.resolver.needed == need
    assert resolution.resolver.add_input(COMMITMENT, GOOD)
    assert resolution.resolver.next() == GOOD
    assert (resolution.resolver.needed, resolution.take_reasons()) == (None, [])


@case("altda_lost")
def unavailable_after_the_challenge_window() -> None:
    resolution = Resolution()
    need = resolution.resolve(KECCAK_ITEM)
    resolution.resolver.input_not_found(COMMITMENT)
    for _ in range(WINDOW + 1):
        assert isinstance(resolution.resolver.next(), NeedChallenges)
        resolution.add_challenges()
    assert resolution.resolver.next() == need, "the server is asked once more"
    resolution.resolver.input_not_found(COMMITMENT)
    with pytest.raises(CriticalError, match="no DA server has the input of commitment 0x004444"):
        resolution.resolver.next()


covered = CoveredCases(
    altda_new_expired=(
        "stages/derivation/pipeline/test_alt_da.py"
        "::test_a_challenge_that_expires_after_derivation_has_died_is_seen_by_its_next_life",
    )
)


@case("altda_keccak_130673")
def keccak_input_too_large() -> None:
    for size, reasons in ((130_672, []), (130_673, [l1_reasons.CommitmentInputTooLarge(130_673, 130_672)])):
        resolution = Resolution()
        resolution.resolve(KECCAK_ITEM)
        resolution.resolver.add_input(COMMITMENT, bytes(size))
        assert (resolution.resolver.next() is None, resolution.take_reasons(DropEffect.DROPPED)) == (
            bool(reasons),
            reasons,
        )
        assert resolution.resolver.needed is None


@case("altda_generic_130673")
def generic_input_of_any_size() -> None:
    resolution = Resolution("GenericCommitment")
    resolution.resolve(GENERIC_ITEM)
    assert resolution.resolver.add_input(Commitment(GENERIC, DIGEST), bytes(130_673))
    assert resolution.resolver.next() == bytes(130_673)
    assert resolution.take_reasons() == []
