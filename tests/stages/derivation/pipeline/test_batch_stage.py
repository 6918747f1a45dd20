"""The batch stage through the whole deriver, beyond the conformance cases."""

import pytest

from rollup_node.stages.derivation.reasons.batches import SpanParentUnavailable, TimestampPast
from rollup_node.stages.messages.derivation import DropEffect
from tests.conformance.kit.chain import GENESIS, forks_until
from tests.conformance.kit.planning import USER, channel, plan, refs, span
from tests.conformance.kit.rollup_chain import RollupChain


@pytest.mark.parametrize("available", [True, False])
def test_an_overlap_is_compared_with_the_safe_chain(available: bool) -> None:
    """Where the safe chain is unavailable, the span is discarded and the batch behind it is checked."""
    known, blocks = plan(GENESIS, 3), plan(GENESIS, 4, (USER,))
    chain = RollupChain(forks_until("holocene"))
    chain.extend(known)
    chain.withheld = set() if available else {1, 2}
    chain.mine(*channel("A", span(blocks[1:]), blocks[3].singular))
    assert refs(chain.run()) == refs(blocks[3:])
    expected = (DropEffect.PAST, TimestampPast) if available else (DropEffect.UNDECIDED, SpanParentUnavailable)
    assert chain.take_drops() == [expected]
