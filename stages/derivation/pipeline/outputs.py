"""Outputs of the deriver: attributes, drops, or the input that it needs next; and hooks to record what it reads."""

from collections import deque
from enum import Enum

import msgspec

from rollup_node.stages.derivation.codec.batches import SingularBatch, SpanBatch
from rollup_node.stages.derivation.pipeline.block_frames import BlockFrames
from rollup_node.stages.derivation.reasons.reason import Dropped, Reason
from rollup_node.stages.derivation.tasks import DecodeChannel
from rollup_node.stages.messages.derivation import DropEffect
from rollup_node.stages.protocol.commitments import Commitment
from rollup_node.stages.protocol.types import Address, BlobRef, L1Block, L1BlockRef


class NeedL1Block(msgspec.Struct, frozen=True):
    """The canonical L1 block of this number: all blocks before it are exhausted [T1]."""

    number: int


class NeedBlobs(msgspec.Struct, frozen=True):
    """The contents of the blobs of the batcher's transactions in `block`, in this order [O5]."""

    block: L1BlockRef
    blobs: tuple[BlobRef, ...]


class NeedInput(msgspec.Struct, frozen=True):
    """The input of an Alt-DA commitment of `block` [AD6]."""

    block: L1BlockRef
    commitment: Commitment


class NeedChallenges(msgspec.Struct, frozen=True):
    """The canonical L1 block of this number for its challenges, ahead of the one being read [AD6]."""

    number: int


class NeedDecoded(msgspec.Struct, frozen=True):
    """The result of a decoding task; `key` is a digest of the channel's bytes and of the rules that it is read by."""

    key: bytes
    task: DecodeChannel


class NeedL2Blocks(msgspec.Struct, frozen=True):
    """Blocks `first` to `last`, both included, of the safe L2 chain."""

    first: int
    last: int


class NeedReset(msgspec.Struct, frozen=True):
    """Derivation cannot continue before a reset [PS2]."""

    reason: Reason


class AwaitSafeHead(msgspec.Struct, frozen=True):
    """Nothing to do until a reset or confirmed attributes [AQ5]; for good before a foreign fork [LFT3]."""


NeedData = NeedBlobs | NeedInput | NeedChallenges
"""What is needed for the next data item."""

Need = NeedData | NeedDecoded | NeedL2Blocks


class Flow(Enum):
    """No output: step again at once, or the L1 blocks read so far are exhausted (EOF in op-node)."""

    MORE = "more"
    OUT_OF_DATA = "out of data"


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
        """Discard the drop."""
