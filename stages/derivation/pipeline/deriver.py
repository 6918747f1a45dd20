"""The deriver: from L1 blocks to payload attributes, all forks, without I/O.

`step` gives the next output or what is missing for it. Whatever stands in the L1 blocks, it ends in attributes, needs
and drops; only contradictions in our own state raise."""

from collections.abc import Sequence
from typing import Protocol

from rollup_node.stages.derivation.pipeline.base_batch_stage import Accepted, BatchStages, StageParts
from rollup_node.stages.derivation.pipeline.batch_checks import BatchChecks
from rollup_node.stages.derivation.pipeline.batch_queue import BatchQueue
from rollup_node.stages.derivation.pipeline.batch_source import ChannelSource
from rollup_node.stages.derivation.pipeline.batch_stage import BatchStage
from rollup_node.stages.derivation.pipeline.channel_reader import ChannelReader, span_rules
from rollup_node.stages.derivation.pipeline.events import Trace
from rollup_node.stages.derivation.pipeline.ingestion import Intake
from rollup_node.stages.derivation.pipeline.l1_origins import Epochs
from rollup_node.stages.derivation.pipeline.l1_traversal import L1Traversal
from rollup_node.stages.derivation.pipeline.outputs import (
    Attributes,
    AwaitSafeHead,
    Flow,
    Need,
    NeedL1Block,
    NeedReset,
)
from rollup_node.stages.derivation.pipeline.overlap_blocks import SafeChain
from rollup_node.stages.derivation.reasons.reasons import Dropped, Effect, Reason, Why
from rollup_node.stages.derivation.tasks import DecodedChannel
from rollup_node.stages.messages.blobs import BlobContent
from rollup_node.stages.protocol.attributes import prepare_attributes, with_transactions
from rollup_node.stages.protocol.config import RollupConfig, SystemConfig
from rollup_node.stages.protocol.errors import CriticalError, ResetError
from rollup_node.stages.protocol.forks.rules import BatchStageKind
from rollup_node.stages.protocol.l1_chains import L1Chain
from rollup_node.stages.protocol.types import BlockId, Hash, L1Block, L1BlockRef, L2BlockContent, L2BlockRef

Output = Attributes | Need | NeedL1Block | NeedReset | AwaitSafeHead | Dropped

BATCH_STAGES: dict[BatchStageKind, type[BatchStages]] = {
    BatchStageKind.BATCH_QUEUE: BatchQueue,
    BatchStageKind.BATCH_STAGE: BatchStage,
}


class Start(Protocol):
    """Where reading begins (derivation-rules RS1): an L1 block, and the config that its updates are already in."""

    @property
    def base(self) -> BlockId: ...

    @property
    def base_config(self) -> SystemConfig: ...


class _Pipeline:
    """The stages of one run, from the base on to the next reset."""

    def __init__(self, deriver: "Deriver", base: L1Block, config: SystemConfig) -> None:
        schedule, trace = deriver.config.schedule(), deriver.trace
        self.block = base
        self.traversal = L1Traversal(schedule, trace, base.ref, config)
        self.intake = Intake(self.traversal.rules, trace)
        self.reader = ChannelReader(schedule, span_rules(deriver.config), trace)
        self.epochs = Epochs(base)
        self.safe_chain = SafeChain()
        self._parts = StageParts(
            deriver.config,
            BatchChecks(deriver.config, schedule, self.safe_chain),
            self.epochs,
            self.safe_chain,
            ChannelSource(self.traversal, self.intake, self.reader, trace),
            trace,
            deriver.span_overlap_check,
        )
        self.batches = BATCH_STAGES[self.traversal.rules.batch_stage](self._parts)
        self._schedule = schedule
        self._trace = trace
        self._open()

    def _open(self) -> None:
        self.intake.open(self.block, self.traversal.batcher, self.traversal.rules)

    def advance(self, block: L1Block) -> None:
        """Goes to the next L1 block; at the fork that changes the stages, before anything of it is read (PS3)."""
        before = self.traversal.origin.timestamp
        self.traversal.advance(block)
        self.block = block
        if self._schedule.switches_stages(before, block.header.timestamp):
            self._switch()
        self._open()

    def _switch(self) -> None:
        frames, channels = self.intake.switch(self.traversal.rules)
        batches = self.batches.switched()
        self.batches = BATCH_STAGES[self.traversal.rules.batch_stage](self._parts)
        if frames or channels or batches:
            reason = Why.FORK_SWITCH(frames=frames, channels=channels, batches=batches)
            self._trace.note(Effect.DISCARDED, reason)


class Deriver:
    """Derives on the safe head that each step is told. Between attributes and their confirmation (a new safe head, or
    `refused`) it waits."""

    def __init__(self, config: RollupConfig, l1_chain: L1Chain, *, span_overlap_check: bool = True) -> None:
        self.config = config
        self.span_overlap_check = span_overlap_check
        self.trace = Trace()
        self._l1_chain = l1_chain
        self._start: Start | None = None
        self._pipeline: _Pipeline | None = None
        self._ready: Attributes | None = None
        self._given: Attributes | None = None
        self._reset_reason: Reason | None = None
        self._wanted_block: int | None = None
        self._used_up_on: L2BlockRef | None = None

    @property
    def origin(self) -> L1BlockRef | None:
        """The L1 block being read."""
        return None if self._pipeline is None else self._pipeline.traversal.origin

    @property
    def origin_config(self) -> SystemConfig | None:
        """The system config at the L1 block being read."""
        return None if self._pipeline is None else self._pipeline.traversal.config

    @property
    def waiting(self) -> Reason | None:
        """Why the batch at the head of the queue can neither be taken nor dropped."""
        return None if self._pipeline is None else self._pipeline.batches.waiting

    # --- what is brought -------------------------------------------------------------------------------------------

    def reset(self, start: Start) -> None:
        """Forgets everything and begins at the start's base."""
        self._start = start
        self._pipeline = self._ready = self._given = self._reset_reason = None
        self._wanted_block = self._used_up_on = None
        self.trace.origin = None
        self.trace.dropped.clear()

    def refused(self) -> None:
        """The last attributes were dropped: the next step derives again on the safe head it is told."""
        self._given = None
        if self._pipeline is not None:
            self._pipeline.safe_chain.clear()

    def flush_for_deposits_only(self) -> None:
        """The last attributes were invalid and replaced by their deposits: what was to follow them in span and channel
        is forgotten (derivation-rules AQ3)."""
        if self._pipeline is None or self._given is None:
            raise CriticalError("a deposits-only replacement of attributes that were not derived here")
        self._given = None
        self._pipeline.batches.flush()
        self._pipeline.safe_chain.clear()
        self.trace.note(Effect.DISCARDED, Why.DEPOSITS_ONLY())

    def add_l1_block(self, block: L1Block) -> bool:
        """Brings the L1 block that is needed; False if it is another."""
        if block.header.number != self._wanted_block or self._start is None:
            return False
        self._wanted_block = self._used_up_on = None
        if self._pipeline is None:
            base = self._start.base
            if block.header.hash == base.hash:
                self._pipeline = _Pipeline(self, block, self._start.base_config)
            else:
                self._ask_reset(Why.L1_BASE(number=base.number, got=block.header.hash, expected=base.hash))
            return True
        refusal = self._pipeline.traversal.refusal(block)
        if refusal is not None:
            self._ask_reset(refusal)
            return True
        self._pipeline.advance(block)
        return True

    def add_blobs(self, block_hash: Hash, contents: Sequence[BlobContent]) -> bool:
        """Brings the blobs that are needed; False if they are others."""
        return self._pipeline is not None and self._pipeline.intake.source.add_blobs(block_hash, contents)

    def blobs_gone(self, block_hash: Hash) -> None:
        """Every source says that it has not got the blobs that are needed: the L1 block is probably not canonical any
        more (derivation-rules T8)."""
        pipeline = self._pipeline
        if pipeline is not None and pipeline.intake.source.is_waiting_for(block_hash):
            self._ask_reset(Why.BLOBS_GONE(number=pipeline.block.header.number))

    def add_decoded(self, key: bytes, result: DecodedChannel) -> bool:
        """Brings the result of the task that is needed; False if it is another."""
        return self._pipeline is not None and self._pipeline.reader.add_decoded(key, result)

    def add_l2_blocks(self, first: int, last: int, blocks: Sequence[L2BlockContent] | None) -> bool:
        """Brings the L2 blocks that are needed, or None if they cannot be had; False if they are others."""
        return self._pipeline is not None and self._pipeline.safe_chain.add(first, last, blocks)

    # --- what comes out --------------------------------------------------------------------------------------------

    def step(self, safe_head: L2BlockRef, safe_config: SystemConfig) -> Output:
        """The next output. `safe_head` is the block to build on, `safe_config` the system config that stands in it."""
        while True:
            if self.trace.dropped:
                return self.trace.dropped.popleft()
            if self._ready is not None:
                self._given, self._ready = self._ready, None
                return self._given
            if self._reset_reason is not None:
                return NeedReset(self._reset_reason)
            if self._given is not None and self._given.parent == safe_head:
                return AwaitSafeHead()
            self._given = None
            output = self._next(safe_head, safe_config)
            if isinstance(output, Attributes):
                self._ready = output
            elif not isinstance(output, Flow) and not self.trace.dropped:
                return output

    def _next(self, safe_head: L2BlockRef, safe_config: SystemConfig) -> Output | Flow:
        if self._start is None:
            return AwaitSafeHead()
        pipeline = self._pipeline
        if pipeline is None:
            return self._want_block(self._start.base.number)
        if self._wanted_block is not None and self._used_up_on == safe_head:
            return NeedL1Block(self._wanted_block)
        outcome = pipeline.batches.next(safe_head, pipeline.block)
        if isinstance(outcome, Accepted):
            return self._build(outcome, pipeline, safe_head, safe_config)
        if outcome is Flow.OUT_OF_DATA:
            self._used_up_on = safe_head
            return self._want_block(pipeline.block.header.number + 1)
        if isinstance(outcome, NeedReset):
            return self._ask_reset(outcome.reason)
        return outcome

    def _build(
        self, accepted: Accepted, pipeline: _Pipeline, parent: L2BlockRef, parent_config: SystemConfig
    ) -> Attributes | Flow:
        """Attributes of an accepted batch (AQ2, AQ6)."""
        batch = accepted.batch
        epoch = pipeline.epochs.block(batch.epoch_number)
        if epoch is None:
            raise CriticalError(f"the L1 origin {batch.epoch_number} of an accepted batch is not known")
        try:
            prepared = prepare_attributes(
                self.config,
                self._l1_chain,
                parent,
                parent_config,
                epoch.header,
                epoch.deposits,
                epoch.config_updates,
            )
        except ResetError as error:
            return self._ask_reset(Why.ORIGIN_PARENT(problem=str(error)))
        attributes = with_transactions(prepared.attributes, batch.transactions)
        return Attributes(parent, attributes, pipeline.traversal.origin, accepted.concluding)

    def _want_block(self, number: int) -> NeedL1Block:
        self._wanted_block = number
        return NeedL1Block(number)

    def _ask_reset(self, reason: Reason) -> Flow:
        self._reset_reason = reason
        self.trace.note(Effect.RESET, reason)
        return Flow.MORE
