"""A batch stage alone, fed from a list, for what cannot happen behind the stages before it."""

from collections import deque
from typing import Any

from rollup_node.stages.derivation.codec.batches import SingularBatch, SpanBatch
from rollup_node.stages.derivation.codec.channel_body import decode_batch
from rollup_node.stages.derivation.pipeline.base_batch_stage import Outcome, StageParts
from rollup_node.stages.derivation.pipeline.batch_checks import BatchChecks
from rollup_node.stages.derivation.pipeline.batch_queue import BatchQueue
from rollup_node.stages.derivation.pipeline.batch_stage import BatchStage
from rollup_node.stages.derivation.pipeline.channel_reader import span_rules
from rollup_node.stages.derivation.pipeline.events import Trace
from rollup_node.stages.derivation.pipeline.l1_origins import Epochs
from rollup_node.stages.derivation.pipeline.outputs import Flow
from rollup_node.stages.derivation.pipeline.overlap_blocks import SafeChain
from rollup_node.stages.protocol.types import L2BlockRef
from tests.conformance.kit.chain import L1, rollup
from tests.conformance.kit.worlds import DEFAULTS, GENESIS


class ListSource:
    """Gives out what is in the list; then there is no more data."""

    def __init__(self) -> None:
        self.items: deque[SingularBatch | SpanBatch | Flow] = deque()

    def pull(self) -> SingularBatch | SpanBatch | Flow:
        return self.items.popleft() if self.items else Flow.OUT_OF_DATA

    def skip(self) -> None:
        self.items.clear()

    def flush(self) -> None:
        self.items.clear()


class StageBench:
    """A stage that has seen the L1 blocks up to `last`, by their distance from genesis' origin."""

    def __init__(
        self,
        stage: type[BatchQueue] | type[BatchStage],
        forks: dict[str, int],
        last: int = 1,
        checks: type[BatchChecks] = BatchChecks,
        **changes: Any,
    ) -> None:
        self.config = rollup(forks, **(DEFAULTS | changes))
        self.l1 = L1()
        self.l1.skip(last)
        self.epochs = Epochs(self.l1.blocks[0])
        self.source = ListSource()
        safe_chain = SafeChain()
        parts = StageParts(
            self.config,
            checks(self.config, self.config.schedule(), safe_chain),
            self.epochs,
            safe_chain,
            self.source,
            Trace(),
            True,
        )
        self.stage = stage(parts)
        for block in self.l1.blocks:
            self.epochs.observe(block, GENESIS)

    def feed(self, *items: bytes | Flow) -> None:
        """Puts encoded batches at the end of the list."""
        for item in items:
            batch = item if isinstance(item, Flow) else decode_batch(item, span_rules(self.config))
            assert isinstance(batch, SingularBatch | SpanBatch | Flow)
            self.source.items.append(batch)

    def next(self, parent: L2BlockRef = GENESIS) -> Outcome:
        """One step of the stage at the newest L1 block."""
        return self.stage.next(parent, self.l1.last)
