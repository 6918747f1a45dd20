"""Alt-DA commitments beyond the conformance cases."""

import pytest

from rollup_node.stages.derivation.pipeline.alt_da import (
    GENERIC,
    AltDaResolver,
    Commitment,
    CommitmentStatus,
    read_commitment,
)
from rollup_node.stages.derivation.pipeline.events import PipelineEvents
from rollup_node.stages.derivation.reasons.alt_da import CommitmentMalformed, CommitmentReorged
from rollup_node.stages.protocol.errors import CriticalError

DIGEST = b"\x44" * 32


def test_a_commitment_after_its_type() -> None:
    assert read_commitment(b"\1\1" + DIGEST) == Commitment(GENERIC, DIGEST)
    assert read_commitment(b"\1") == CommitmentMalformed("no bytes")


def test_a_version_byte_alone_is_skipped() -> None:
    events = PipelineEvents()
    resolver = AltDaResolver("KeccakCommitment", events)
    assert resolver.resolve(b"\1") is None
    assert (resolver.needed, resolver.reset) == (None, None)
    assert [each.reason for each in events.drops] == [CommitmentMalformed("no bytes")]


def test_another_l1_chain_needs_a_reset() -> None:
    resolver = AltDaResolver("KeccakCommitment", PipelineEvents())
    assert resolver.resolve(b"\1\0" + DIGEST) is None
    assert resolver.add_input(CommitmentStatus.REORGED) is None
    assert resolver.reset == CommitmentReorged(DIGEST)


def test_an_input_that_is_not_needed_is_critical() -> None:
    resolver = AltDaResolver("KeccakCommitment", PipelineEvents())
    with pytest.raises(CriticalError):
        resolver.add_input(b"input")
