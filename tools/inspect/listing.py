"""Every batch in a range of L1 blocks, decoded but not checked, for `rollup-node batches`."""

from collections.abc import Iterator, Sequence

from rollup_node.stages.derivation.codec.batches import SingularBatch, SpanBatch
from rollup_node.stages.derivation.pipeline.block_frames import blob_refs, data_items
from rollup_node.stages.derivation.pipeline.channel_bank import PartialChannel, ReadyChannel
from rollup_node.stages.derivation.pipeline.channel_reader import ChannelReader, span_rules
from rollup_node.stages.derivation.pipeline.events import PipelineEvents
from rollup_node.stages.derivation.pipeline.ingestion import FrameIngestion
from rollup_node.stages.derivation.pipeline.l1_origins import L1Traversal
from rollup_node.stages.derivation.pipeline.outputs import Flow, NeedDecoded
from rollup_node.stages.derivation.reasons.reason import Dropped
from rollup_node.stages.derivation.tasks import run
from rollup_node.stages.messages.blobs import BlobContent
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.types import Address, BlobRef, Hash, L1Block, L1BlockRef
from rollup_node.tools.inspect.batch_summary import BatchSummary, hashes_digest
from rollup_node.tools.inspect.channel_sources import ChannelSources


class BatchListing:
    """Reads consecutive L1 blocks, beginning without open channels.

    The batcher is that of the genesis config with the updates in the range, or the one that is given. `events` take
    what is read."""

    def __init__(
        self,
        config: RollupConfig,
        first: L1Block,
        batcher: Address | None = None,
        events: PipelineEvents | None = None,
    ) -> None:
        schedule, self._events = config.schedule(), events or PipelineEvents()
        self._schedule = schedule
        self._fixed_batcher = batcher
        self._opened: tuple[L1Block, Address] | None = None
        self._sources = ChannelSources()
        self._traversal = L1Traversal(schedule, self._events, first.ref, config.genesis.system_config)
        self._ingestion = FrameIngestion(self._traversal.rules, self._events)
        self._reader = ChannelReader(span_rules(config), self._events)

    @property
    def origin(self) -> L1BlockRef:
        """The L1 block being read."""
        return self._traversal.origin

    @property
    def batcher(self) -> Address:
        """The batcher in force in the L1 block being read."""
        return self._traversal.batcher if self._fixed_batcher is None else self._fixed_batcher

    @property
    def live_channels(self) -> tuple[PartialChannel, ...]:
        """The channels that frames may still complete, oldest first."""
        oldest = self._traversal.origin.number - self._traversal.rules.channel_timeout
        return tuple(each for each in self._ingestion.open_channels if each.opened >= oldest)

    def open(self, block: L1Block) -> tuple[BlobRef, ...]:
        """Start to read the next block, first of all `first`. Returns the blobs whose contents `batches` needs."""
        traversal = self._traversal
        before = traversal.origin.timestamp
        traversal.advance(block)
        if self._schedule.switches_stages(before, block.header.timestamp):
            self._ingestion.replace_channels(traversal.rules)
        batcher = self.batcher
        self._ingestion.open(block, batcher, traversal.rules)
        self._opened = block, batcher
        return blob_refs(data_items(block, batcher, traversal.rules))

    def batches(self, contents: Sequence[BlobContent]) -> Iterator[BatchSummary | Dropped]:
        """Yield the batches and drops of the block, given the contents of its blobs.

        Raises ValueError if they are those of other blobs."""
        traversal, ingestion = self._traversal, self._ingestion
        if self._opened is not None:
            block, batcher = self._opened
            self._sources.add(block, contents, batcher, traversal.rules)
        ingestion.source.add_blobs(traversal.origin.hash, contents)
        while True:
            channel = ingestion.next_channel(traversal.origin, traversal.rules)
            yield from self._drops()
            if channel is None:
                return
            if not isinstance(channel, ReadyChannel):
                raise ValueError(f"the contents are not those of the blobs of L1 block {traversal.origin}")
            yield from self._channel(channel)

    def _drops(self) -> Iterator[Dropped]:
        while self._events.drops:
            yield self._events.drops.popleft()

    def _channel(self, channel: ReadyChannel) -> Iterator[BatchSummary | Dropped]:
        traversal, reader = self._traversal, self._reader
        sources = self._sources.take(channel.id)
        reader.open(channel, traversal.rules)
        while True:
            popped = reader.pop(traversal.rules, traversal.origin.timestamp)
            yield from self._drops()
            if isinstance(popped, NeedDecoded):
                reader.add_decoded(popped.key, run(popped.task))
            elif popped is Flow.OUT_OF_DATA:
                return
            elif not isinstance(popped, Flow):
                yield _summary(popped, channel, traversal.origin, sources)


def _summary(
    batch: SingularBatch | SpanBatch, channel: ReadyChannel, inclusion: L1BlockRef, sources: tuple[Hash, ...]
) -> BatchSummary:
    digest = hashes_digest(batch.transactions)
    count = len(batch.transactions)
    if isinstance(batch, SingularBatch):
        kind, first, blocks, parent = "singular", batch.timestamp, 1, batch.parent_hash
    else:
        kind, first, blocks, parent = "span", batch.first_timestamp, batch.block_count, batch.parent_check
    return BatchSummary(
        inclusion=inclusion.number,
        channel=channel.id,
        kind=kind,
        first_timestamp=first,
        blocks=blocks,
        transactions=count,
        parent=parent,
        digest=digest,
        inclusion_time=inclusion.timestamp,
        l1_transactions=sources,
        channel_bytes=len(channel.body),
    )
