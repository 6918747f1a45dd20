"""Which L1 transactions the frames of a channel came in, and which channels the attributes of a block."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from rollup_node.stages.derivation.codec.batches import SingularBatch, SpanBatch
from rollup_node.stages.derivation.codec.frames import parse_frames
from rollup_node.stages.derivation.pipeline.block_frames import BlockFrames, batcher_transactions
from rollup_node.stages.derivation.pipeline.outputs import PipelineEvents
from rollup_node.stages.derivation.reasons.reason import Reason
from rollup_node.stages.messages.blobs import BlobContent
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.forks.rules import L1Rules
from rollup_node.stages.protocol.transactions import BLOB
from rollup_node.stages.protocol.types import Address, Hash, InboxTransaction, L1Block

MAX_CHANNELS = 10_000
"""Channels whose transactions are kept; with more, the oldest is forgotten."""
MAX_TRANSACTIONS = 10_000
"""Transactions that are kept of one channel."""


class ChannelSources:
    """The hashes of the L1 transactions with frames of each channel that has not been taken, in order."""

    def __init__(self) -> None:
        self._hashes: dict[bytes, dict[Hash, None]] = {}

    def add(self, block: L1Block, contents: Sequence[BlobContent], batcher: Address, rules: L1Rules) -> None:
        """Read the frames of an L1 block; `contents` are those of its blobs in order."""
        remaining = iter(contents)
        for transaction in batcher_transactions(block, batcher):
            for data in _items(transaction, remaining, rules):
                frames = parse_frames(data)
                if not isinstance(frames, Reason):
                    self.note(transaction.hash, (frame.channel for frame in frames))

    def note(self, transaction: Hash, channels: Iterable[bytes]) -> None:
        """Note that a transaction has frames of these channels."""
        for channel in dict.fromkeys(channels):
            hashes = self._hashes.setdefault(channel, {})
            if len(hashes) < MAX_TRANSACTIONS:
                hashes[transaction] = None
        while len(self._hashes) > MAX_CHANNELS:
            del self._hashes[next(iter(self._hashes))]

    def take(self, channel: bytes) -> tuple[Hash, ...]:
        """Return the transactions of a channel that has ended; empty if L1 was read without hashes."""
        return tuple(item for item in self._hashes.pop(channel, ()) if item)


def _items(transaction: InboxTransaction, contents: Iterator[BlobContent], rules: L1Rules) -> Iterator[bytes]:
    """Yield the data items of a transaction that are not refused."""
    if transaction.kind != BLOB or not rules.blobs_as_data:
        yield transaction.data
        return
    for _, content in zip(transaction.blobs, contents, strict=False):
        if content.data is not None:
            yield content.data


def batch_shape(batch: SingularBatch | SpanBatch) -> tuple[str, int, int]:
    """Return the kind of a batch, the time of its first block in seconds, and its number of blocks."""
    if isinstance(batch, SingularBatch):
        return "singular", batch.timestamp, 1
    return "span", batch.first_timestamp, batch.block_count


MAX_BATCHES = 200_000
"""Batches whose transactions are remembered until they are accepted, the oldest forgotten first."""

Sources = tuple[Hash, ...]


class BatchSource(NamedTuple):
    """A batch that was read: its kind, the time of its first block, its blocks, and where it came from.

    `channel_bytes` is the size of the compressed channel, `transactions` the L1 transactions with its frames, none
    where L1 was read without hashes."""

    channel: bytes
    channel_bytes: int
    transactions: Sources
    kind: str
    first_timestamp: int
    blocks: int


class BlockSources(PipelineEvents):
    """`accepted` is the batch that was accepted last; None for the empty batch that the rules make."""

    def __init__(self, config: RollupConfig) -> None:
        super().__init__()
        self.accepted: BatchSource | None = None
        self._schedule = config.schedule()
        self._block: L1Block | None = None
        self._channels = ChannelSources()
        self._channel: tuple[int, Sources] = (0, ())
        self._batches: dict[int, BatchSource] = {}
        self._span_block: tuple[SingularBatch, BatchSource | None] | None = None

    def block_opened(self, block: L1Block, batcher: Address) -> None:
        """Remember the transactions of the block."""
        self._block = block

    def frames_parsed(self, frames: BlockFrames) -> None:
        """Note the channels of each transaction.

        The items are those of the batcher's transactions in order, without malformed blobs."""
        block = self._block
        if block is None or block.header.hash != frames.block:
            return
        malformed, items = dict(frames.malformed), iter(frames.items)
        blobs_as_data = self._schedule.l1(block.header.timestamp).blobs_as_data
        for transaction in batcher_transactions(block, frames.batcher):
            is_blobs = transaction.kind == BLOB and blobs_as_data
            count = sum(blob not in malformed for blob in transaction.blobs) if is_blobs else 1
            for _ in range(count):
                self._channels.note(transaction.hash, (frame.channel for frame in next(items).frames))

    def channel_opened(self, channel: bytes, size: int) -> None:
        """Note that the next batches are of this channel."""
        self._channel = size, self._channels.take(channel)

    def batch_read(self, channel: bytes, batch: SingularBatch | SpanBatch) -> None:
        """Remember where the batch came from."""
        kind, time, blocks = batch_shape(batch)
        self._batches.pop(id(batch), None)
        self._batches[id(batch)] = BatchSource(channel, *self._channel, kind, time, blocks)
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
