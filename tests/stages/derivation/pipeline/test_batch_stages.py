"""Both batch stages beyond the conformance cases."""

import pytest

from rollup_node.stages.derivation.pipeline.batch_stages import AcceptedBatch, BatchQueue
from rollup_node.stages.protocol.errors import CriticalError
from tests.conformance.kit.batch_stage import BatchStageHarness
from tests.conformance.kit.chain import FIRST_L1, GENESIS, forks_until
from tests.conformance.kit.planning import channel, plan, refs, span
from tests.conformance.kit.rollup_chain import RollupChain


def test_an_origin_that_is_not_in_the_window_is_critical() -> None:
    harness = BatchStageHarness(BatchQueue, forks_until("granite"))
    harness.feed(span(plan(GENESIS, 2)))
    first = harness.next()
    assert isinstance(first, AcceptedBatch) and not first.concluding
    harness.l1_window.blocks.clear()
    with pytest.raises(CriticalError, match="is not known"):
        harness.next(plan(GENESIS, 1)[0].ref)


FORKS = forks_until("granite")


def test_batches_keep_their_own_inclusion_block() -> None:
    """A batch that came in time is still in time when its parent is derived, four L1 blocks later [BQ12]."""
    first, second = plan(GENESIS, 2)
    chain = RollupChain(FORKS, seq_window_size=4)
    chain.mine_until(FIRST_L1 + 2)
    chain.mine(*channel("A", second.singular))
    chain.mine(*channel("B", first.singular))
    assert refs(chain.run()[:2]) == refs([first, second])
