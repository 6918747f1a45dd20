"""Which L1 transactions the frames of a channel came in, and which channels the attributes of a block."""

from collections.abc import Sequence

from rollup_node.stages.derivation.codec.batches import SingularBatch, SpanBatch
from rollup_node.stages.derivation.codec.frames import Frame
from rollup_node.stages.derivation.pipeline.block_frames import BlockFrames, batcher_transactions
from rollup_node.stages.derivation.pipeline.outputs import PipelineEvents
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.transactions import BLOB
from rollup_node.stages.protocol.types import Address, BlobRef, Hash, L1Block
from rollup_node.tools.inspect.batch_summary import Batch

MAX_CHANNELS = 10_000
"""Channels whose transactions are kept until they are read; with more, the oldest is forgotten."""
MAX_TRANSACTIONS = 10_000
"""Transactions that are kept of one channel."""
MAX_BATCHES = 200_000
"""Batches whose transactions are remembered until they are accepted, the oldest forgotten first."""

Sources = tuple[Hash, ...]


def batch_shape(batch: SingularBatch | SpanBatch) -> tuple[str, int, int]:
    """Return the kind of a batch, the time of its first block in seconds, and its number of blocks."""
    if isinstance(batch, SingularBatch):
        return "singular", batch.timestamp, 1
    return "span", batch.first_timestamp, batch.block_count


class ReadChannel:
    """The number of the L1 block of a channel's first frame, how many frames it has, and their transactions in order.

    It has no frames where the channel was forgotten."""

    def __init__(self, opened: int = 0) -> None:
        self.opened, self.frames = opened, 0
        self.transactions: dict[Hash, None] = {}

    def add(self, transaction: Hash) -> None:
        """Add a frame."""
        self.frames += 1
        # L1 may have been read without hashes.
        if transaction and len(self.transactions) < MAX_TRANSACTIONS:
            self.transactions[transaction] = None


class BlockSources(PipelineEvents):
    """`channel` is the one whose batches are read, and `transactions` are those of its frames.

    `accepted` is the batch that was accepted last; None for the empty batch that the rules make."""

    def __init__(self, config: RollupConfig) -> None:
        super().__init__()
        self.accepted: Batch | None = None
        self.channel = ReadChannel()
        self.transactions: Sources = ()
        self._schedule = config.schedule()
        self._block: L1Block | None = None
        self._channels: dict[bytes, ReadChannel] = {}
        self._channel_bytes = 0
        self._batches: dict[int, Batch] = {}
        self._span_block: tuple[SingularBatch, Batch | None] | None = None

    def block_opened(self, block: L1Block, batcher: Address) -> None:
        """Remember the transactions of the block."""
        self._block = block

    def frames_parsed(self, frames: BlockFrames) -> None:
        """Note the channels of each transaction.

        The items are those of the batcher's transactions in order, without malformed blobs."""
        block = self._block
        if block is None or block.header.hash != frames.block:
            return
        malformed, items, number = dict(frames.malformed), iter(frames.items), 0
        blobs_as_data = self._schedule.l1(block.header.timestamp).blobs_as_data
        for transaction in batcher_transactions(block, frames.batcher):
            is_blobs = transaction.kind == BLOB and blobs_as_data
            for blob in transaction.blobs if is_blobs else (None,):
                if blob not in malformed:
                    self.item_parsed(block, transaction.hash, blob, number, next(items).frames)
                number += 1

    def item_parsed(
        self, block: L1Block, transaction: Hash, blob: BlobRef | None, number: int, frames: Sequence[Frame]
    ) -> None:
        """Note the channels of a data item: of a blob or of call data, by its number in the block."""
        for frame in frames:
            self._channels.setdefault(frame.channel, ReadChannel(block.header.number)).add(transaction)
        while len(self._channels) > MAX_CHANNELS:
            del self._channels[next(iter(self._channels))]

    def channel_opened(self, channel: bytes, size: int) -> None:
        """Note that the next batches are of this channel."""
        self._channel_bytes, self.channel = size, self._channels.pop(channel, ReadChannel())
        self.transactions = tuple(self.channel.transactions)

    def batch_read(self, channel: bytes, batch: SingularBatch | SpanBatch) -> None:
        """Remember where the batch came from."""
        self._batches.pop(id(batch), None)
        self._batches[id(batch)] = Batch(*batch_shape(batch), channel, self._channel_bytes, self.transactions)
        if len(self._batches) > MAX_BATCHES:
            del self._batches[next(iter(self._batches))]

    def span_block(self, span: SpanBatch, batch: SingularBatch) -> None:
        """Remember which span a block comes from."""
        self._span_block = batch, self._batches.get(id(span))

    def batch_accepted(self, batch: SingularBatch) -> None:
        """Set `accepted`."""
        if self._span_block is not None and self._span_block[0] is batch:
            self.accepted = self._span_block[1]
        else:
            self.accepted = self._batches.pop(id(batch), None)
