"""The record of safe heads where a supervisor promotes them [IOP28, SDB13]."""

from rollup_node.stages.engine.core.calls import Work
from rollup_node.stages.engine.core.supervisor_calls import ForceStart, PromoteCrossSafe, PromoteFinalized
from tests.stages.engine.core.test_supervisor_calls import blocks, decide, interop_chain
from tests.support.core_harness import CoreHarness


def recording() -> CoreHarness:
    """A node with a safe head database that the supervisor has let find its start, with four derived blocks, of which
    the first two are promoted with L1 blocks 103 and 104."""
    harness = CoreHarness(interop_chain(), interop=True, safedb_path="safe")
    harness.move_l1(harness.l1_head)
    harness.run_until_idle()
    decide(harness, ForceStart(None))
    harness.derive()
    harness.run_until_idle()
    for _ in range(4):
        harness.derive(harness.chain.user)
        harness.run_until_idle()
        harness.wait(0.2)
        harness.run_until_idle()
    promote(harness, 1, 103)
    promote(harness, 2, 104)
    assert recorded(harness) == [(0, 0), (103, 1), (104, 2)]
    return harness


def promote(harness: CoreHarness, number: int, source: int) -> None:
    """The supervisor says that a block is safe across chains with an L1 block."""
    decide(harness, PromoteCrossSafe(blocks(harness)[number], harness.chain.l1_ref(source)))


def recorded(harness: CoreHarness) -> list[tuple[int, int]]:
    """L1 and L2 numbers of the entries."""
    return [(each.l1_block.number, each.safe_head.number) for each in harness.record.entries]


def test_a_block_that_the_supervisor_finalizes_is_recorded_first() -> None:
    """[SDB13]"""
    harness = recording()
    refs = blocks(harness)
    harness.core.decide(PromoteCrossSafe(refs[3], harness.chain.l1_ref(105)), harness.now)
    harness.run_others(Work.SAFE_HEAD_WRITE)
    assert harness.status.safe == refs[3]
    harness.core.decide(PromoteFinalized(refs[3]), harness.now)
    harness.run_others(Work.SAFE_HEAD_WRITE)
    assert harness.status.finalized == refs[0] and harness.engine.finalized != refs[3].hash
    harness.answer(harness.call(Work.SAFE_HEAD_WRITE))
    harness.run_until_idle()
    assert harness.status.finalized == refs[3] and harness.engine.finalized == refs[3].hash


def test_a_reset_drops_a_finality_that_waits() -> None:
    """The block may be of another chain then."""
    harness = recording()
    refs = blocks(harness)
    harness.core.decide(PromoteCrossSafe(refs[3], harness.chain.l1_ref(105)), harness.now)
    harness.run_others(Work.SAFE_HEAD_WRITE)
    harness.core.decide(PromoteFinalized(refs[3]), harness.now)
    decide(harness, ForceStart(None))
    assert harness.status.finalized == refs[0]
