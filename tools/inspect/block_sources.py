"""Which L1 transactions each derived L2 block comes from, as the pipeline of a replay reports it."""

from rollup_node.stages.derivation.codec.batches import SingularBatch, SpanBatch
from rollup_node.stages.derivation.pipeline.block_frames import BlockFrames, batcher_transactions
from rollup_node.stages.derivation.pipeline.events import PipelineEvents
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.transactions import BLOB
from rollup_node.stages.protocol.types import Address, Hash, L1Block
from rollup_node.tools.inspect.channel_sources import ChannelSources

MAX_BATCHES = 200_000
"""Batches whose transactions are remembered until they are accepted, the oldest forgotten first."""

Sources = tuple[Hash, ...]


class BlockSources(PipelineEvents):
    """`accepted` are the L1 transactions with the frames of the channel whose batch was accepted last; empty for the
    empty batch that the rules make, and where L1 was read without hashes."""

    def __init__(self, config: RollupConfig) -> None:
        super().__init__()
        self.accepted: Sources = ()
        self._schedule = config.schedule()
        self._block: L1Block | None = None
        self._channels = ChannelSources()
        self._channel: Sources = ()
        self._batches: dict[int, Sources] = {}
        self._span_block: tuple[SingularBatch, Sources] | None = None

    def block_opened(self, block: L1Block, batcher: Address) -> None:
        """Remembers the transactions of the block."""
        self._block = block

    def frames_parsed(self, frames: BlockFrames) -> None:
        """Notes the channels of each transaction. The items are those of the batcher's transactions in order, without
        malformed blobs."""
        block = self._block
        if block is None or block.header.hash != frames.block:
            return
        malformed, items = {(blob.index, blob.hash) for blob in frames.malformed}, iter(frames.items)
        blobs_as_data = self._schedule.l1(block.header.timestamp).blobs_as_data
        for transaction in batcher_transactions(block, frames.batcher):
            is_blobs = transaction.kind == BLOB and blobs_as_data
            count = sum((blob.index, blob.hash) not in malformed for blob in transaction.blobs) if is_blobs else 1
            for _ in range(count):
                self._channels.note(transaction.hash, (frame.channel for frame in next(items).frames))

    def channel_opened(self, channel: bytes, size: int) -> None:
        """The next batches are of this channel."""
        self._channel = self._channels.take(channel)

    def batch_read(self, channel: bytes, batch: SingularBatch | SpanBatch) -> None:
        """Remembers the transactions of the batch."""
        self._batches.pop(id(batch), None)
        self._batches[id(batch)] = self._channel
        if len(self._batches) > MAX_BATCHES:
            del self._batches[next(iter(self._batches))]

    def span_block(self, span: SpanBatch, batch: SingularBatch) -> None:
        """Remembers which span a block comes from."""
        self._span_block = batch, self._batches.get(id(span), ())

    def batch_accepted(self, batch: SingularBatch) -> None:
        """Sets `accepted`."""
        if self._span_block is not None and self._span_block[0] is batch:
            self.accepted = self._span_block[1]
        else:
            self.accepted = self._batches.pop(id(batch), ())
