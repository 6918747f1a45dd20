"""What the pipeline's stages report: drops in order, added frames, and what they read, for a recording subclass."""

from collections import deque

from rollup_node.stages.derivation.codec.batches import SingularBatch, SpanBatch
from rollup_node.stages.derivation.pipeline.block_frames import BlockFrames
from rollup_node.stages.derivation.reasons.reason import Dropped, Reason
from rollup_node.stages.messages.derivation import DropEffect
from rollup_node.stages.protocol.types import Address, L1Block, L1BlockRef


class PipelineEvents:
    """Drops that are not yet outputs of the deriver, oldest first.

    `origin` is the L1 block being read, and `frames_added` counts the frames added to channels since the start
    [MET11]."""

    def __init__(self) -> None:
        self.origin: L1BlockRef | None = None
        self.drops: deque[Dropped] = deque()
        self.frames_added = 0

    def drop(self, effect: DropEffect, reason: Reason) -> None:
        """Record a drop at the L1 block being read."""
        self.drops.append(Dropped(effect, reason, self.origin))

    def add_frame(self) -> None:
        """Count a frame that was added to its channel."""
        self.frames_added += 1

    def block_opened(self, block: L1Block, batcher: Address) -> None:
        """Note that an L1 block is read, whose batcher this is. Records nothing."""

    def frames_parsed(self, frames: BlockFrames) -> None:
        """Note the parsed data items of the L1 block that was opened last. Records nothing."""

    def channel_opened(self, channel: bytes, size: int) -> None:
        """Note that a complete channel of `size` bytes is read. Records nothing."""

    def batch_read(self, channel: bytes, batch: SingularBatch | SpanBatch) -> None:
        """Note that a batch of this channel is to be checked. Records nothing."""

    def span_block(self, span: SpanBatch, batch: SingularBatch) -> None:
        """Note the next block of an accepted span. Records nothing."""

    def batch_accepted(self, batch: SingularBatch) -> None:
        """Note that the attributes of this batch's block are made. Records nothing."""


class DiscardedEvents(PipelineEvents):
    """Keeps no drops: for stages that only read ahead, whose drops the pipeline reports when it comes to them."""

    def drop(self, effect: DropEffect, reason: Reason) -> None:
        """Discards the drop."""
