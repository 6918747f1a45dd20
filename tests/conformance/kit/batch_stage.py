"""Harness for a batch stage with batches from a list, for inputs that the stages before it never produce."""

from collections import deque
from typing import Any

from rollup_node.stages.derivation.codec.batches import SingularBatch, SpanBatch
from rollup_node.stages.derivation.codec.channel_body import decode_batch
from rollup_node.stages.derivation.pipeline.batch_checks import BatchChecks, OverlapBlocks
from rollup_node.stages.derivation.pipeline.batch_stages import BatchQueue, BatchStage, BatchStageContext, StageOutput
from rollup_node.stages.derivation.pipeline.channel_reader import span_rules
from rollup_node.stages.derivation.pipeline.l1_origins import L1OriginWindow
from rollup_node.stages.derivation.pipeline.outputs import Flow, PipelineEvents
from rollup_node.stages.protocol.types import L2BlockRef
from tests.conformance.kit.chain import GENESIS, L1Blocks, rollup


class BatchList:
    """A NextBatchProvider that returns the batches of a list."""

    def __init__(self) -> None:
        self.items: deque[SingularBatch | SpanBatch | Flow] = deque()

    def next_batch(self) -> SingularBatch | SpanBatch | Flow:
        return self.items.popleft() if self.items else Flow.OUT_OF_DATA

    def discard_block(self) -> None:
        self.items.clear()

    def flush_channel(self) -> None:
        self.items.clear()


class BatchStageHarness:
    """A stage that has seen the L1 blocks up to `last`, by their distance from genesis' origin."""

    def __init__(
        self,
        stage: type[BatchQueue] | type[BatchStage],
        forks: dict[str, int],
        last: int = 1,
        checks: type[BatchChecks] = BatchChecks,
        **changes: Any,
    ) -> None:
        self.config = rollup(forks, **changes)
        self.l1 = L1Blocks()
        self.l1.skip(last)
        self.l1_window = L1OriginWindow(self.l1.blocks[0])
        self.events = PipelineEvents()
        self._provider = BatchList()
        overlap_blocks = OverlapBlocks()
        context = BatchStageContext(
            self.config,
            checks(self.config, overlap_blocks),
            self.l1_window,
            overlap_blocks,
            self._provider,
            self.events,
            True,
        )
        self.stage = stage(context)
        for block in self.l1.blocks:
            self.l1_window.advance_origin(block, GENESIS)

    def feed(self, *items: bytes | Flow) -> None:
        """Append encoded batches to the list."""
        for item in items:
            batch = item if isinstance(item, Flow) else decode_batch(item, span_rules(self.config))
            assert isinstance(batch, SingularBatch | SpanBatch | Flow)
            self._provider.items.append(batch)

    def next(self, parent: L2BlockRef = GENESIS) -> StageOutput:
        """One step of the stage at the newest L1 block."""
        return self.stage.next(parent, self.l1.last)
