"""The pending span: blocks of an accepted span, one by one on the parents that they become."""

import pytest

from rollup_node.stages.derivation.codec.batches import SpanBatch, SpanCursor
from rollup_node.stages.derivation.codec.channel_body import decode_batch
from rollup_node.stages.derivation.pipeline.base_batch_stage import PendingSpan
from rollup_node.stages.derivation.pipeline.channel_reader import span_rules
from rollup_node.stages.derivation.pipeline.events import PipelineEvents
from rollup_node.stages.derivation.pipeline.l1_origins import L1OriginWindow
from rollup_node.stages.protocol.errors import CriticalError
from tests.conformance.kit.chain import GENESIS, L1Blocks, forks_until, rollup
from tests.conformance.kit.planning import Planned, plan, span

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
