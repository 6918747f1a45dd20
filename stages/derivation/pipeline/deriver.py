"""The deriver: from L1 blocks to payload attributes, for all forks, without I/O.

`step` gives the next output, or what is needed for it. Whatever L1 blocks contain, it ends in attributes, needs and
drops; only contradictions in our own state raise."""

from collections.abc import Sequence

from rollup_node.stages.derivation.pipeline.alt_da import AltDaResolver
from rollup_node.stages.derivation.pipeline.batch_attributes import Chains, Lookahead, batch_attributes
from rollup_node.stages.derivation.pipeline.batch_checks import BatchChecks, OverlapBlocks
from rollup_node.stages.derivation.pipeline.batch_stages import (
    AcceptedBatch,
    BatchQueue,
    BatchStage,
    BatchStageContext,
)
from rollup_node.stages.derivation.pipeline.block_frames import BlockFrames
from rollup_node.stages.derivation.pipeline.channel_bank import PartialChannel
from rollup_node.stages.derivation.pipeline.channel_reader import ChannelBatches, ChannelReader, span_rules
from rollup_node.stages.derivation.pipeline.ingestion import FrameIngestion
from rollup_node.stages.derivation.pipeline.l1_origins import L1OriginWindow, L1Traversal, without_inbox
from rollup_node.stages.derivation.pipeline.outputs import (
    AwaitSafeHead,
    Flow,
    Need,
    NeedL1Block,
    NeedReset,
    PipelineEvents,
)
from rollup_node.stages.derivation.reasons.batches import L1OriginInvalid, PayloadReplacedByDeposits, StagesReplaced
from rollup_node.stages.derivation.reasons.l1 import BlobsNotFound, ChallengeExpired, ResetBaseMismatch
from rollup_node.stages.derivation.reasons.reason import Dropped, Reason
from rollup_node.stages.derivation.tasks import DecodedChannel
from rollup_node.stages.messages.blobs import BlobContent
from rollup_node.stages.messages.derivation import DropEffect
from rollup_node.stages.messages.engine import AttributesReady
from rollup_node.stages.protocol.config import RollupConfig, SystemConfig
from rollup_node.stages.protocol.errors import CriticalError, ResetError
from rollup_node.stages.protocol.l1_chains import L1Chain
from rollup_node.stages.protocol.types import BlockId, Hash, L1Block, L1BlockRef, L2BlockContent, L2BlockRef

Output = AttributesReady | Need | NeedL1Block | NeedReset | AwaitSafeHead | Dropped


class _Pipeline:
    """The stages of one run, from the base to the next reset. `block` is the L1 block being read, without its inbox."""

    def __init__(self, deriver: "Deriver", base: L1Block, config: SystemConfig, frames: BlockFrames | None) -> None:
        schedule, events = deriver.config.schedule(), deriver.events
        self.block = without_inbox(base)
        self.traversal = L1Traversal(schedule, events, base.ref, config)
        self.ingestion = FrameIngestion(self.traversal.rules, events, deriver.alt_da)
        self.reader = ChannelReader(span_rules(deriver.config), events)
        self.l1_window = L1OriginWindow(self.block)
        self.overlap_blocks = OverlapBlocks()
        self._context = BatchStageContext(
            deriver.config,
            BatchChecks(deriver.config, self.overlap_blocks, deriver.assume_parents),
            self.l1_window,
            self.overlap_blocks,
            ChannelBatches(self.traversal, self.ingestion, self.reader, events),
            events,
            deriver.span_overlap_check,
        )
        self.batches = self._batch_stage()
        self._schedule = schedule
        self._events = events
        self._open(base, frames)

    def _open(self, block: L1Block, frames: BlockFrames | None) -> None:
        self.ingestion.source.open(block, self.traversal.batcher, self.traversal.rules, frames)

    def _batch_stage(self) -> BatchQueue | BatchStage:
        return BatchStage(self._context) if self.traversal.rules.batch_stage else BatchQueue(self._context)

    def advance(self, block: L1Block, frames: BlockFrames | None) -> None:
        """Move to the next L1 block; a fork that replaces stages does so before its data is read [PS3, PS4]."""
        before = self.traversal.origin.timestamp
        self.traversal.advance(block)
        self.block = without_inbox(block)
        if self._schedule.switches_stages(before, block.header.timestamp):
            self._replace_stages()
        self._open(block, frames)

    def _replace_stages(self) -> None:
        frames, channels = self.ingestion.replace_channels(self.traversal.rules)
        batches = self.batches.discard()
        self.batches = self._batch_stage()
        if frames or channels or batches:
            self._events.drop(DropEffect.DISCARDED, StagesReplaced(frames, channels, batches))


class Deriver:
    """Derives on the safe head that is given to each step.

    After attributes it waits until they are confirmed by a new safe head, refused, or replaced by their deposits. With
    `assume_parents` safe heads may have UNKNOWN_HASH, which every batch for the next block then has as its parent."""

    def __init__(
        self,
        config: RollupConfig,
        l1_chain: L1Chain,
        *,
        span_overlap_check: bool = True,
        events: PipelineEvents | None = None,
        assume_parents: bool = False,
    ) -> None:
        self.config = config
        self.span_overlap_check, self.assume_parents = span_overlap_check, assume_parents
        self.events = PipelineEvents() if events is None else events
        self.alt_da = _alt_da_resolver(config, self.events)
        self._chains = Chains(config, l1_chain)
        self._base: tuple[BlockId, SystemConfig] | None = None
        self._pipeline: _Pipeline | None = None
        self._ready: AttributesReady | None = None
        self._emitted: AttributesReady | None = None
        self._lookahead: Lookahead | None = None
        self._reset_reason: Reason | None = None
        self._needed_block: int | None = None
        self._exhausted_on: L2BlockRef | None = None

    @property
    def origin(self) -> L1BlockRef | None:
        """The L1 block being read."""
        return None if self._pipeline is None else self._pipeline.traversal.origin

    @property
    def origin_config(self) -> SystemConfig | None:
        """The system config at the L1 block being read."""
        return None if self._pipeline is None else self._pipeline.traversal.config

    @property
    def open_channels(self) -> tuple[PartialChannel, ...]:
        """The channels that are not read yet, oldest first."""
        return () if self._pipeline is None else self._pipeline.ingestion.open_channels

    @property
    def stalled_by(self) -> Reason | None:
        """Why the batch at the head of the batch queue can neither be accepted nor dropped [H1]."""
        return None if self._pipeline is None else self._pipeline.batches.stalled_by

    # --- inputs ----------------------------------------------------------------------------------------------------

    def reset(self, base: BlockId, config: SystemConfig) -> None:
        """Discard everything and start to read at an L1 block; `config` has this block's updates in it [RS1].

        After an expired challenge, the challenges of Alt-DA stay known: they say which commitment to skip [RS3]."""
        if self.alt_da is not None:
            is_expired = self._reset_reason is not None and self._reset_reason.kind is ChallengeExpired
            self.alt_da.clear(keep_challenges=is_expired)
        self._base = base, config
        self._pipeline = self._ready = self._emitted = self._lookahead = self._reset_reason = None
        self._needed_block = self._exhausted_on = None
        self.events.origin = None
        self.events.drops.clear()

    def attributes_refused(self) -> None:
        """Drop the last attributes: the next step derives again on the safe head that it is given [BQ13]."""
        self._emitted = self._lookahead = None
        if self._pipeline is not None:
            self._pipeline.overlap_blocks.clear()

    def flush_for_deposits_only(self) -> None:
        """Drop what follows attributes that were replaced by their deposits [AQ3].

        That is the rest of their span, the channel being read and the staging channel. Raises CriticalError if no
        attributes are waiting."""
        if self._pipeline is None or self._emitted is None:
            raise CriticalError("deposits replace attributes that were not derived here")
        self._emitted = self._lookahead = None
        self._pipeline.batches.flush()
        self._pipeline.overlap_blocks.clear()
        self.events.drop(DropEffect.DISCARDED, PayloadReplacedByDeposits())

    def add_l1_block(self, block: L1Block, frames: BlockFrames | None = None) -> bool:
        """Bring the L1 block that is needed, with `frames` parsed ahead of it if any; False if it is another."""
        if block.header.number != self._needed_block or self._base is None:
            return False
        self._needed_block = self._exhausted_on = None
        if self._pipeline is None:
            base, config = self._base
            if block.header.hash == base.hash:
                self._pipeline = _Pipeline(self, block, config, frames)
                self._open_alt_da(block)
            else:
                self._request_reset(ResetBaseMismatch(base.number, block.header.hash, base.hash))
            return True
        rejection = self._pipeline.traversal.rejection(block)
        if rejection is not None:
            self._request_reset(rejection)
            return True
        self._pipeline.advance(block, frames)
        self._open_alt_da(block)
        return True

    def note_l1_block(self, block: L1Block) -> None:
        """Request a reset if this next L1 block does not follow the one being read, while attributes wait [T3]."""
        rejection = None if self._pipeline is None else self._pipeline.traversal.rejection(block)
        if rejection is not None and self._reset_reason is None:
            self._request_reset(rejection)

    def add_challenges(self, block: L1Block) -> bool:
        """Bring the L1 block whose challenges are needed ahead; False if it is another."""
        taken = self.alt_da is not None and self.alt_da.add_challenges(block)
        if isinstance(taken, Reason):
            self._request_reset(taken)
        return taken is not False

    def _open_alt_da(self, block: L1Block) -> None:
        reason = None if self.alt_da is None else self.alt_da.open(block)
        if reason is not None:
            self._request_reset(reason)

    def add_blobs(self, block_hash: Hash, contents: Sequence[BlobContent]) -> bool:
        """Bring the blobs that are needed; False if they are others."""
        return self._pipeline is not None and self._pipeline.ingestion.source.add_blobs(block_hash, contents)

    def add_frames(self, frames: BlockFrames) -> bool:
        """Bring what was parsed ahead of the needed block instead of its blobs; False if it is of another block."""
        return self._pipeline is not None and self._pipeline.ingestion.source.add_frames(frames)

    def blobs_not_found(self, block_hash: Hash) -> None:
        """No source has the blobs that are needed: the L1 block is probably no longer canonical [T8]."""
        pipeline = self._pipeline
        if pipeline is not None and pipeline.ingestion.source.is_waiting_for(block_hash):
            self._request_reset(BlobsNotFound(pipeline.block.header.number))

    def add_decoded(self, key: bytes, result: DecodedChannel) -> bool:
        """Bring the result of the task that is needed; False if it is another."""
        return self._pipeline is not None and self._pipeline.reader.add_decoded(key, result)

    def add_l2_blocks(self, first: int, last: int, blocks: Sequence[L2BlockContent] | None) -> bool:
        """Bring the L2 blocks that are needed, or None if they are unavailable; False if they are others."""
        return self._pipeline is not None and self._pipeline.overlap_blocks.add(first, last, blocks)

    # --- outputs ---------------------------------------------------------------------------------------------------

    def step(self, safe_head: L2BlockRef, safe_config: SystemConfig) -> Output:
        """Return the next output, building on `safe_head`, which carries `safe_config`."""
        while True:
            if self.events.drops:
                return self.events.drops.popleft()
            if self._ready is not None:
                self._emitted, self._ready = self._ready, None
                return self._emitted
            if self._reset_reason is not None:
                return NeedReset(self._reset_reason)
            if self._emitted is not None and self._emitted.parent == safe_head:
                return AwaitSafeHead()
            self._emitted = None
            output = self._next(safe_head, safe_config)
            if isinstance(output, AttributesReady):
                self._ready = output
            elif not isinstance(output, Flow) and not self.events.drops:
                return output

    def ahead(self) -> AttributesReady | None:
        """Return the attributes after those that were given last, derived ahead of the answer to them.

        None where derivation needs that answer. Once confirmed, `step` gives the same attributes again, with their
        parent."""
        last, pipeline = self._emitted, self._pipeline
        if last is None or pipeline is None:
            return None
        if self._lookahead is None:
            fork = pipeline.batches.fork()
            if fork is None:
                return None
            self._lookahead = Lookahead(self._chains, fork, pipeline.block, last)
        return self._lookahead.next()

    def cancel_ahead(self) -> None:
        """Let `ahead` begin again behind the attributes that were given last."""
        self._lookahead = None

    def _next(self, safe_head: L2BlockRef, safe_config: SystemConfig) -> Output | Flow:
        if self._base is None or self.config.ends_at(safe_head.number):
            return AwaitSafeHead()
        pipeline = self._pipeline
        if pipeline is None:
            return self._need_block(self._base[0].number)
        # The stages are not stepped again while the next L1 block is missing: a step can give up an epoch [T2].
        if self._needed_block is not None and self._exhausted_on == safe_head:
            return NeedL1Block(self._needed_block)
        output = pipeline.batches.next(safe_head, pipeline.block)
        if isinstance(output, AcceptedBatch):
            return self._build(output, pipeline, safe_head, safe_config)
        self._lookahead = None
        if output is Flow.OUT_OF_DATA:
            self._exhausted_on = safe_head
            return self._need_block(pipeline.block.header.number + 1)
        if isinstance(output, NeedReset):
            return self._request_reset(output.reason)
        return output

    def _build(
        self, accepted: AcceptedBatch, pipeline: _Pipeline, parent: L2BlockRef, parent_config: SystemConfig
    ) -> AttributesReady | Flow:
        """Attributes of an accepted batch [AQ2, AQ6]."""
        self.events.batch_accepted(accepted.batch)
        lookahead, self._lookahead = self._lookahead, None
        if lookahead is not None:
            ahead = lookahead.confirm(accepted, parent, parent_config)
            if ahead is not None:
                self._lookahead = lookahead
                return ahead
        try:
            attributes = batch_attributes(self._chains, pipeline.l1_window, accepted.batch, parent, parent_config)
        except ResetError as error:
            return self._request_reset(L1OriginInvalid(str(error)))
        return AttributesReady(0, 0, parent, attributes, pipeline.traversal.origin, accepted.concluding)

    def _need_block(self, number: int) -> NeedL1Block:
        self._needed_block = number
        return NeedL1Block(number)

    def _request_reset(self, reason: Reason) -> Flow:
        self._reset_reason = reason
        self.events.drop(DropEffect.RESET, reason)
        return Flow.MORE


def _alt_da_resolver(config: RollupConfig, events: PipelineEvents) -> AltDaResolver | None:
    alt_da = config.alt_da
    if alt_da is None:
        return None
    # A reset goes back to a safe head of this depth [STA12]; its L1 origin and the open channels lie further back.
    depth = max(config.seq_window_size, alt_da.challenge_window + alt_da.resolve_window)
    look_back = depth + config.seq_window_size + config.channel_timeout
    return AltDaResolver(alt_da, look_back, events, config.genesis.l1.number)
