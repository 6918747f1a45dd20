"""Frame ingestion: from L1 blocks to complete channels, through the frame queue and the channel stage."""

from collections import deque
from collections.abc import Sequence

from rollup_node.stages.derivation.codec.frames import Frame
from rollup_node.stages.derivation.pipeline.alt_da import AltDaResolver
from rollup_node.stages.derivation.pipeline.block_frames import (
    BlockFrames,
    ItemFrames,
    are_contents_of,
    blob_refs,
    data_items,
    parse_block,
    parse_item,
)
from rollup_node.stages.derivation.pipeline.channel_bank import (
    ChannelAssembler,
    ChannelBank,
    PartialChannel,
    ReadyChannel,
)
from rollup_node.stages.derivation.pipeline.outputs import NeedBlobs, NeedData, PipelineEvents
from rollup_node.stages.derivation.reasons.l1 import BlobMalformed, SenderNotBatcher
from rollup_node.stages.messages.blobs import BlobContent
from rollup_node.stages.messages.derivation import DropEffect
from rollup_node.stages.protocol.forks.rules import L1Rules
from rollup_node.stages.protocol.types import Address, BlobRef, Hash, L1Block, L1BlockRef


class FrameIngestion:
    """The stages before the channel reader.

    The channel stage is chosen at construction and by `replace_channels`; everything else follows the rules of the
    block being read [PS3 to PS6]. `alt_da` resolves the data items that are commitments, on chains with Alt-DA."""

    def __init__(self, rules: L1Rules, events: PipelineEvents, alt_da: AltDaResolver | None = None) -> None:
        self.source = DataSource(events, alt_da is not None)
        self._events, self._alt_da = events, alt_da
        self._frames: deque[Frame] = deque()
        self._channels = self._channel_stage(rules)

    def replace_channels(self, rules: L1Rules) -> tuple[int, int]:
        """Replace the channel stage by an empty one of these rules; the discarded frames and channels [PS3]."""
        discarded = len(self._frames), len(self._channels)
        self._frames.clear()
        self._channels = self._channel_stage(rules)
        return discarded

    def _channel_stage(self, rules: L1Rules) -> ChannelBank | ChannelAssembler:
        return ChannelAssembler(self._events) if rules.batch_stage else ChannelBank(self._events)

    @property
    def open_channels(self) -> tuple[PartialChannel, ...]:
        """The channels of the channel stage, oldest first."""
        return self._channels.open_channels

    def flush(self) -> None:
        """Drop the staging channel; frames in the frame queue stay [BS7]."""
        self._channels.flush()

    def next_channel(self, origin: L1BlockRef, rules: L1Rules) -> ReadyChannel | NeedData | None:
        """Return the next complete channel; None when the block is exhausted.

        A channel is read before the next frame is ingested, which decides what the bank evicts [CB17]."""
        alt_da = self._alt_da
        while True:
            channel = self._channels.read(origin, rules)
            if channel is not None:
                return channel
            if self._frames:
                self._channels.ingest_frame(self._frames.popleft(), origin, rules)
                continue
            item = self.source.pop() if alt_da is None else self._resolved_item(alt_da, origin, rules)
            if not isinstance(item, ItemFrames):
                return item
            for effect, reason in item.drops:
                self._events.drop(effect, reason)
            self._frames.extend(item.frames)

    def _resolved_item(self, alt_da: AltDaResolver, origin: L1BlockRef, rules: L1Rules) -> ItemFrames | NeedData | None:
        """Return the next item, a commitment replaced by its input [AD8]."""
        while True:
            result = alt_da.next()
            if isinstance(result, bytes):
                return parse_item(result, rules)
            if result is not None:
                return result
            item = self.source.pop()
            if not isinstance(item, ItemFrames) or item.unresolved is None:
                return item
            alt_da.resolve(item.unresolved, origin)


class DataSource:
    """The data items of the L1 block that was opened last, parsed into frames.

    Frames that were parsed ahead can be given instead of blobs; those of another block or batcher are refused. With
    `alt_da` an item may be unresolved."""

    def __init__(self, events: PipelineEvents, alt_da: bool = False) -> None:
        self._events, self._alt_da = events, alt_da
        self._items: deque[ItemFrames] = deque()
        self._unparsed: list[bytes | BlobRef] = []
        self._need: NeedBlobs | None = None
        self._block: Hash = b""
        self._batcher: Address = b""
        self._rules = L1Rules()

    def open(self, block: L1Block, batcher: Address, rules: L1Rules, frames: BlockFrames | None = None) -> None:
        """Start on a block, the one before exhausted; `batcher` holds for all of it [BF6].

        `frames` are those parsed ahead, if any."""
        self._events.block_opened(block, batcher)
        for transaction in block.inbox:
            if transaction.sender != batcher:
                self._events.drop(DropEffect.IGNORED, SenderNotBatcher(transaction.sender, batcher))
        self._block, self._batcher, self._rules = block.header.hash, batcher, rules
        self._items.clear()
        if frames is not None and self._take(frames):
            return
        self._unparsed = data_items(block, batcher, rules)
        blobs = blob_refs(self._unparsed)
        self._need = NeedBlobs(block.ref, blobs) if blobs else None
        if not blobs:
            self._parse(())

    def open_parsed(self, frames: BlockFrames) -> None:
        """Start on a block of which only the parsed frames are known."""
        self._block, self._batcher = frames.block, frames.batcher
        self._items.clear()
        self._take(frames)

    def add_blobs(self, block_hash: Hash, contents: Sequence[BlobContent]) -> bool:
        """Bring the blobs of the block; False if they are not the ones that are needed."""
        need = self._need
        if need is None or need.block.hash != block_hash or not are_contents_of(contents, need.blobs):
            return False
        self._parse(contents)
        return True

    def add_frames(self, frames: BlockFrames) -> bool:
        """Bring what was parsed ahead of a block whose blobs are needed; False if it is of another block."""
        return self._need is not None and self._take(frames)

    def is_waiting_for(self, block_hash: Hash) -> bool:
        return self._need is not None and self._need.block.hash == block_hash

    def pop(self) -> ItemFrames | NeedBlobs | None:
        """Return the next item; None when the block is exhausted."""
        if self._need is not None:
            return self._need
        return self._items.popleft() if self._items else None

    def _parse(self, contents: Sequence[BlobContent]) -> None:
        items = self._unparsed
        self._take(parse_block(self._block, self._batcher, items, contents, self._rules, self._alt_da))

    def _take(self, frames: BlockFrames) -> bool:
        if (frames.block, frames.batcher) != (self._block, self._batcher):
            return False
        self._events.frames_parsed(frames)
        for blob, error in frames.malformed:
            self._events.drop(DropEffect.IGNORED, BlobMalformed(blob.index, blob.hash, error))
        self._items.extend(frames.items)
        self._need, self._unparsed = None, []
        return True
