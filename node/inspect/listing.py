"""Every batch in a range of L1 blocks, without judging any: what `rollup-node batches` lists."""

from collections.abc import Iterator, Sequence

from rollup_node.node.inspect.listed_batch import ListedBatch, hashes_digest
from rollup_node.stages.derivation.codec.batches import SingularBatch, SpanBatch
from rollup_node.stages.derivation.pipeline.channel_bank import ReadyChannel
from rollup_node.stages.derivation.pipeline.channel_reader import ChannelReader, span_rules
from rollup_node.stages.derivation.pipeline.data_source import data_items, wanted_blobs
from rollup_node.stages.derivation.pipeline.events import Trace
from rollup_node.stages.derivation.pipeline.ingestion import Intake
from rollup_node.stages.derivation.pipeline.l1_traversal import L1Traversal
from rollup_node.stages.derivation.pipeline.outputs import Flow, NeedBlobs, NeedDecoded
from rollup_node.stages.derivation.reasons.reasons import Dropped
from rollup_node.stages.derivation.tasks import run
from rollup_node.stages.messages.blobs import BlobContent
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.types import Address, BlobRef, L1Block


class Listing:
    """Reads L1 blocks in a row, beginning with no channels. The batcher is the one of the genesis config, changed by
    the updates in the range, or the one given."""

    def __init__(self, config: RollupConfig, first: L1Block, batcher: Address | None = None) -> None:
        schedule, self._trace = config.schedule(), Trace()
        self._schedule = schedule
        self._fixed_batcher = batcher
        self._traversal = L1Traversal(schedule, self._trace, first.ref, config.genesis.system_config)
        self._intake = Intake(self._traversal.rules, self._trace)
        self._reader = ChannelReader(schedule, span_rules(config), self._trace)

    def open(self, block: L1Block) -> tuple[BlobRef, ...]:
        """Takes up the next block, `first` to begin with; the blobs that must be brought to `batches`."""
        traversal = self._traversal
        before = traversal.origin.timestamp
        traversal.advance(block)
        if self._schedule.switches_stages(before, block.header.timestamp):
            self._intake.switch(traversal.rules)
        batcher = traversal.batcher if self._fixed_batcher is None else self._fixed_batcher
        self._intake.open(block, batcher, traversal.rules)
        return wanted_blobs(data_items(block, batcher, traversal.rules))

    def batches(self, contents: Sequence[BlobContent]) -> Iterator[ListedBatch | Dropped]:
        """The batches of the block whose blobs these are, and what was dropped on the way to them."""
        traversal, intake = self._traversal, self._intake
        intake.source.add_blobs(traversal.origin.hash, contents)
        while True:
            channel = intake.next_channel(traversal.origin, traversal.rules)
            yield from self._drops()
            if isinstance(channel, NeedBlobs):
                raise ValueError(f"the blobs of L1 block {traversal.origin} are not the ones that were asked for")
            if channel is None:
                return
            yield from self._channel(channel)

    def _drops(self) -> Iterator[Dropped]:
        while self._trace.dropped:
            yield self._trace.dropped.popleft()

    def _channel(self, channel: ReadyChannel) -> Iterator[ListedBatch | Dropped]:
        traversal, reader = self._traversal, self._reader
        reader.open(channel, traversal.rules)
        while True:
            popped = reader.pop(traversal.rules, traversal.origin.timestamp)
            yield from self._drops()
            if isinstance(popped, NeedDecoded):
                reader.add_decoded(popped.key, run(popped.task))
            elif popped is Flow.OUT_OF_DATA:
                return
            elif not isinstance(popped, Flow):
                yield _listed(popped, channel, traversal.origin.number)


def _listed(batch: SingularBatch | SpanBatch, channel: ReadyChannel, inclusion: int) -> ListedBatch:
    digest = hashes_digest(batch.transactions)
    count = len(batch.transactions)
    if isinstance(batch, SingularBatch):
        return ListedBatch(inclusion, channel.id, "singular", batch.timestamp, 1, count, batch.parent_hash, digest)
    return ListedBatch(
        inclusion, channel.id, "span", batch.first_timestamp, batch.block_count, count, batch.parent_check, digest
    )
