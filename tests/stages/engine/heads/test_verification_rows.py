"""The engine core in a supernode: denied blocks, going back, and labels [IV5, IV6, IV10, IV11, IV12, RW1 to RW4, LB6]."""

from rollup_node.stages.engine.calls import actions as act
from rollup_node.stages.engine.calls import engine_api as api
from rollup_node.stages.engine.calls.calls import CallPurpose
from rollup_node.stages.engine.heads.verification import AWAITING_VERDICTS
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.engine import AttributesOutcome
from rollup_node.stages.protocol.deposits import is_deposit
from rollup_node.stages.protocol.types import L2BlockRef
from tests.support.chains.chain_fixture import ChainFixture, chain_with
from tests.support.engine.core_harness import CoreHarness


def begin(chain: ChainFixture, **config: object) -> CoreHarness:
    """Return a node of a supernode that has heard that nothing is verified or denied."""
    harness = CoreHarness(chain, verified=True, safedb_path="safe", **config)
    harness.move_l1(harness.l1_head)
    harness.judge()
    harness.run_until_idle()
    harness.derive_block()
    return harness


def derived(harness: CoreHarness, blocks: int) -> list[L2BlockRef]:
    """Derive blocks with a transaction; genesis and all blocks."""
    refs = [harness.heads.safe]
    for _ in range(blocks):
        harness.derive_block(harness.chain.user)
        harness.pass_time(0.2)
        refs.append(harness.heads.safe)
    return refs


def transactions(harness: CoreHarness, block: L2BlockRef) -> tuple[bytes, ...]:
    return harness.chain.payloads[block.hash].transactions


def test_a_denied_block_is_replaced(chain: ChainFixture) -> None:
    harness = begin(chain)
    refs = derived(harness, 4)
    harness.judge(verified=refs[2].id)
    harness.pass_time(0.2)
    assert harness.status.safe == refs[2] and harness.status.local_safe == refs[4]
    harness.judge(verified=refs[2].id, denied=[refs[3].id], transition=1, go_back=refs[2].id)
    harness.run_until_idle()
    harness.pass_time(2.0)
    assert harness.status.transition == 1
    assert harness.status.unsafe == harness.status.local_safe == harness.status.safe == refs[2]
    harness.derive_block(harness.chain.user)
    head = harness.heads.unsafe
    assert head.number == 3 and all(map(is_deposit, transactions(harness, head)))
