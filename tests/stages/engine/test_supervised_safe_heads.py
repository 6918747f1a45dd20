"""The record of safe heads where a supervisor promotes them [IOP28, SDB13]."""

import pytest

from rollup_node.stages.engine.calls.calls import CallPurpose
from rollup_node.stages.engine.calls.heads import Heads
from rollup_node.stages.engine.core.interop import (
    ForceStart,
    Invalidate,
    Promote,
)
from rollup_node.stages.engine.process.interop_server import replacement_attributes
from rollup_node.stages.protocol.types import L2BlockRef
from tests.stages.engine.core.test_interop import blocks, decide, managed_core
from tests.support.engine.core_harness import CoreHarness

RECORDED = [(0, 0), (103, 1), (104, 2)]


@pytest.fixture
def harness() -> CoreHarness:
    """Return a node with a safe head database that the supervisor has let find its start, with four derived blocks,
    of which the first two are promoted with L1 blocks 103 and 104."""
    harness = managed_core(4, {"safedb_path": "safe"})
    promote(harness, 1, 103)
    promote(harness, 2, 104)
    assert recorded(harness) == RECORDED
    return harness


@pytest.fixture
def refs(harness: CoreHarness) -> list[L2BlockRef]:
    return blocks(harness)


def promote(harness: CoreHarness, number: int, source: int) -> None:
    """The supervisor says that a block is safe across chains with an L1 block."""
    decide(harness, Promote("safe", blocks(harness)[number], harness.chain.l1_ref(source)))


def recorded(harness: CoreHarness) -> list[tuple[int, int]]:
    """L1 and L2 numbers of the entries."""
    return [(entry.l1_block.number, entry.safe_head.number) for entry in harness.record.entries]


def test_a_block_that_the_supervisor_finalizes_is_recorded_first(harness: CoreHarness, refs: list[L2BlockRef]) -> None:
    """[SDB13]"""
    harness.core.decide(Promote("safe", refs[3], harness.chain.l1_ref(105)), harness.now)
    harness.run_others(CallPurpose.SAFE_HEAD_WRITE)
    assert harness.status.safe == refs[3]
    harness.core.decide(Promote("finalized", refs[3]), harness.now)
    harness.run_others(CallPurpose.SAFE_HEAD_WRITE)
    assert harness.status.finalized == refs[0] and harness.engine.finalized != refs[3].hash
    harness.answer(harness.call(CallPurpose.SAFE_HEAD_WRITE))
    harness.run_until_idle()
    assert harness.status.finalized == refs[3] and harness.engine.finalized == refs[3].hash


def test_an_older_or_repeated_promotion_changes_nothing(harness: CoreHarness, refs: list[L2BlockRef]) -> None:
    """[SDB14]: what is recorded after it stays, and so do the heads."""
    for number, source in ((1, 103), (1, 106), (0, 100), (2, 104), (2, 103), (3, 103)):
        promote(harness, number, source)
        assert recorded(harness) == RECORDED
        assert harness.status.safe == refs[2] and harness.engine.safe == refs[2].hash
    promote(harness, 2, 105)
    promote(harness, 3, 105)
    assert recorded(harness) == [*RECORDED, (105, 3)] and harness.status.safe == refs[3]


def test_after_an_l1_reorg_a_promotion_may_have_a_lower_l1_block(harness: CoreHarness, refs: list[L2BlockRef]) -> None:
    """[SDB11, SDB14]"""
    decide(harness, ForceStart(Heads(refs[3], refs[2], refs[2], refs[0], refs[2], refs[2])))
    promote(harness, 3, 103)
    assert recorded(harness) == [(0, 0), (103, 3)] and harness.status.safe == refs[3]


def test_blocks_that_were_read_before_a_reset_are_not_promoted(harness: CoreHarness, refs: list[L2BlockRef]) -> None:
    """[IOP28]"""
    before = harness.core.reset_count
    decide(harness, ForceStart(Heads(refs[3], refs[2], refs[2], refs[0], refs[2], refs[2])))
    status = harness.status
    invalidated = harness.chain.payloads[refs[3].hash]
    for decision in (
        Promote("safe", refs[3], harness.chain.l1_ref(105)),
        Promote("unsafe", refs[3]),
        Promote("finalized", refs[1]),
        Invalidate(refs[3], refs[2], replacement_attributes(invalidated)),
    ):
        harness.core.decide(decision, harness.now, before)
        harness.drain()
        assert harness.step() == [] and harness.status == status
    assert recorded(harness) == RECORDED


def test_the_replacement_of_a_block_deletes_no_entry(harness: CoreHarness, refs: list[L2BlockRef]) -> None:
    """[SDB15]"""
    harness.core.decide(
        Invalidate(refs[3], refs[2], replacement_attributes(harness.chain.payloads[refs[3].hash])), harness.now
    )
    harness.run_until_idle()
    replacement = harness.status.safe
    assert replacement is not None and replacement.number == 3 and replacement != refs[3]
    assert recorded(harness) == RECORDED
    decide(harness, Promote("safe", replacement, harness.chain.l1_ref(105)))
    assert recorded(harness) == [*RECORDED, (105, 3)]
    assert harness.record.entries[-1].safe_head == replacement.id


def test_promotions_during_a_start_wait_for_its_heads(harness: CoreHarness, refs: list[L2BlockRef]) -> None:
    """[IOP28, SDB2]: the supervisor does not repeat them."""
    harness.core.decide(ForceStart(Heads(refs[4], refs[2], refs[2], refs[0], refs[2], refs[2])), harness.now)
    harness.core.decide(Promote("safe", refs[3], harness.chain.l1_ref(105)), harness.now)
    harness.core.decide(Promote("safe", refs[4], harness.chain.l1_ref(106)), harness.now)
    assert harness.core.heads is None
    harness.drain()
    harness.run_until_idle()
    assert recorded(harness) == [*RECORDED, (105, 3), (106, 4)]
    assert harness.status.safe == refs[4] and harness.engine.safe == refs[4].hash


def test_another_start_drops_the_promotions_that_wait(harness: CoreHarness, refs: list[L2BlockRef]) -> None:
    """[IOP28]"""
    start = ForceStart(Heads(refs[4], refs[2], refs[2], refs[0], refs[2], refs[2]))
    harness.core.decide(start, harness.now)
    harness.core.decide(Promote("safe", refs[3], harness.chain.l1_ref(105)), harness.now)
    decide(harness, start)
    assert recorded(harness) == RECORDED and harness.status.safe == refs[2]
