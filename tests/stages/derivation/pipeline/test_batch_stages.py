"""The pending span: blocks of an accepted span, one by one on the parents that they become. The batch queue
through the whole deriver, beyond the conformance cases. The batch stage through the whole deriver, beyond the
conformance cases."""

import pytest

from rollup_node.stages.derivation.codec.batches import SpanBatch, SpanCursor
from rollup_node.stages.derivation.codec.channel_body import decode_batch
from rollup_node.stages.derivation.pipeline.batch_stages import PendingSpan
from rollup_node.stages.derivation.pipeline.channel_reader import span_rules
from rollup_node.stages.derivation.pipeline.l1_origins import L1OriginWindow
from rollup_node.stages.derivation.pipeline.outputs import PipelineEvents
from rollup_node.stages.derivation.reasons.batches import SpanParentUnavailable, TimestampPast
from rollup_node.stages.messages.derivation import DropEffect
from rollup_node.stages.messages.engine import AttributesReady
from rollup_node.stages.protocol.errors import CriticalError
from tests.conformance.kit.chain import FIRST_L1, GENESIS, L1Blocks, forks_until, rollup
from tests.conformance.kit.planning import USER, Planned, channel, child, plan, refs, span
from tests.conformance.kit.rollup_chain import RollupChain

CONFIG = rollup(forks_until("holocene"))


class Pending:
    """A pending span with these blocks, and a window of one L1 block."""

    def __init__(self, blocks: list[Planned]) -> None:
        self.events = PipelineEvents()
        self.l1_window = L1OriginWindow(L1Blocks().last)
        self.span = PendingSpan(CONFIG, self.l1_window, self.events)
        batch = decode_batch(span(blocks), span_rules(CONFIG))
        assert isinstance(batch, SpanBatch)
        self.span.start(SpanCursor(batch))


def test_an_origin_that_is_not_in_the_window_is_critical() -> None:
    pending = Pending(plan(GENESIS, 1))
    pending.l1_window.blocks.clear()
    with pytest.raises(CriticalError, match="is not known"):
        pending.span.pop(GENESIS)


FORKS = forks_until("granite")


def test_a_refused_block_is_derived_again_from_the_queue() -> None:
    first, second = child(GENESIS, (USER,)), child(GENESIS, ())
    chain = RollupChain(FORKS)
    chain.mine(*channel("A", first.singular, second.singular))
    chain.run(until=lambda output: isinstance(output, AttributesReady))
    chain.deriver.attributes_refused()
    assert refs(chain.run()) == [second.ref]


def test_batches_keep_their_own_inclusion_block() -> None:
    """A batch that came in time is still in time when its parent is derived, four L1 blocks later [BQ12]."""
    first, second = plan(GENESIS, 2)
    chain = RollupChain(FORKS, seq_window_size=4)
    chain.mine_until(FIRST_L1 + 2)
    chain.mine(*channel("A", second.singular))
    chain.mine(*channel("B", first.singular))
    assert refs(chain.run()[:2]) == refs([first, second])


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
