"""Commitments in place of data (derivation-rules 5): how they are read, and what each standing of one leads to."""

import pytest

from rollup_node.stages.derivation.pipeline.alt_da import (
    GENERIC,
    KECCAK,
    AltDaGate,
    Commitment,
    Standing,
    read_commitment,
)
from rollup_node.stages.derivation.pipeline.events import Trace
from rollup_node.stages.derivation.reasons.reasons import Dropped, Effect, Reason, Why
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
        self.trace = Trace()
        self.gate = AltDaGate(commitment_type, self.trace)

    def is_skipped(self, data: bytes, reason: Reason) -> bool:
        """Whether the item is skipped for this reason, and the next one read."""
        assert self.gate.offer(data) is None
        assert (self.gate.wanted, self.gate.reset) == (None, None)
        return self.said() == [reason] and self.gate.offer(GOOD) == GOOD

    def said(self) -> list[Reason]:
        found = list(self.trace.dropped)
        self.trace.dropped.clear()
        assert found == [Dropped(Effect.IGNORED, each.reason, None) for each in found]
        return [each.reason for each in found]


@case("altda_off_v1")
def without_it() -> None:
    front = Front(forks_until("ecotone"))
    assert front.read(KECCAK_ITEM) == []
    assert [each.reason for each in front.dropped] == [Why.FRAMES_VERSION(version=1)]


@table(altda_v0_pass=(GOOD, ["A0"], []), altda_v7_pass=(b"\7" + GOOD[1:], [], [Why.FRAMES_VERSION]))
def passed_on(data: bytes, channels: list[str], whys: list[Why]) -> None:
    gate = Gate()
    assert gate.gate.offer(data) == data
    assert gate.said() == []
    front = Front(forks_until("ecotone"))
    assert (front.read(data), front.whys) == (channels, whys)


@table(
    altda_empty=(b"", Why.ALT_DA_EMPTY()),
    altda_keccak_31=(b"\1\0" + DIGEST[:31], Why.ALT_DA_COMMITMENT(problem="keccak of 31 bytes")),
    altda_keccak_33=(b"\1\0" + DIGEST + b"\0", Why.ALT_DA_COMMITMENT(problem="keccak of 33 bytes")),
    altda_generic_empty=(b"\1\1", Why.ALT_DA_COMMITMENT(problem="no bytes behind its type")),
    altda_type_2=(b"\1\2" + DIGEST, Why.ALT_DA_COMMITMENT(problem="unknown type 2")),
    altda_type_mismatch=(GENERIC_ITEM, Why.ALT_DA_KIND(kind=GENERIC, expected=KECCAK)),
)
def skipped(data: bytes, reason: Reason) -> None:
    assert Gate().is_skipped(data, reason)


def test_a_version_byte_alone_is_skipped() -> None:
    assert Gate().is_skipped(b"\1", Why.ALT_DA_COMMITMENT(problem="no bytes"))
    assert read_commitment(GENERIC_ITEM) == Commitment(GENERIC, DIGEST)


@case("altda_expired")
def challenge_expired() -> None:
    gate = Gate()
    assert gate.gate.offer(KECCAK_ITEM) is None
    assert gate.gate.settle(Standing.EXPIRED) is None
    assert (gate.gate.wanted, gate.gate.reset) == (None, None)
    assert gate.said() == [Why.ALT_DA_EXPIRED(commitment=DIGEST)]
    assert gate.gate.offer(GOOD) == GOOD


@case("altda_pending")
def not_there_yet() -> None:
    gate = Gate()
    gate.gate.offer(KECCAK_ITEM)
    for _ in range(3):
        assert gate.gate.settle(Standing.PENDING) is None
        assert gate.gate.wanted == Commitment(KECCAK, DIGEST)
    assert gate.gate.settle(GOOD) == GOOD
    assert (gate.gate.wanted, gate.said()) == (None, [])


@case("altda_lost")
def lost_for_good() -> None:
    gate = Gate()
    gate.gate.offer(KECCAK_ITEM)
    with pytest.raises(CriticalError):
        gate.gate.settle(Standing.LOST)


@case("altda_new_expired")
def an_earlier_one_expires() -> None:
    gate = Gate()
    gate.gate.advance(any_expired=False)
    assert gate.gate.reset is None
    gate.gate.advance(any_expired=True)
    assert gate.gate.reset == Why.ALT_DA_VOID()


def test_another_l1_chain_asks_for_a_reset() -> None:
    gate = Gate()
    gate.gate.offer(KECCAK_ITEM)
    assert gate.gate.settle(Standing.REORGED) is None
    assert gate.gate.reset == Why.ALT_DA_REORG(commitment=DIGEST)


@case("altda_keccak_130673")
def keccak_input_too_large() -> None:
    for size, reasons in ((130_672, []), (130_673, [Why.ALT_DA_SIZE(size=130_673, limit=130_672)])):
        gate = Gate()
        gate.gate.offer(KECCAK_ITEM)
        settled = gate.gate.settle(bytes(size))
        assert (settled is None, gate.said()) == (bool(reasons), reasons)
        assert gate.gate.wanted is None


@case("altda_generic_130673")
def generic_input_of_any_size() -> None:
    gate = Gate("GenericCommitment")
    gate.gate.offer(GENERIC_ITEM)
    assert gate.gate.settle(bytes(130_673)) == bytes(130_673)
    assert gate.said() == []
