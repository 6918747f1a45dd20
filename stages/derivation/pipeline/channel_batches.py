"""The batches of the channels that complete in the L1 block being read, as the batch stages pull them."""

from rollup_node.stages.derivation.codec.batches import SingularBatch, SpanBatch
from rollup_node.stages.derivation.pipeline.channel_bank import ReadyChannel
from rollup_node.stages.derivation.pipeline.channel_reader import ChannelReader
from rollup_node.stages.derivation.pipeline.events import PipelineEvents
from rollup_node.stages.derivation.pipeline.ingestion import FrameIngestion
from rollup_node.stages.derivation.pipeline.l1_traversal import L1Traversal
from rollup_node.stages.derivation.pipeline.outputs import Flow, Need, NeedData
from rollup_node.stages.derivation.reasons.reading import ChannelBehindSafeHead
from rollup_node.stages.messages.derivation import DropEffect


class ChannelBatches:
    """Joins L1 traversal, frame ingestion and channel reader: the batch stages' NextBatchProvider."""

    def __init__(
        self, traversal: L1Traversal, ingestion: FrameIngestion, reader: ChannelReader, events: PipelineEvents
    ) -> None:
        self._traversal = traversal
        self._ingestion = ingestion
        self._reader = reader
        self._events = events

    def next_batch(self) -> SingularBatch | SpanBatch | Need | Flow:
        """Return the next batch of the L1 block; OUT_OF_DATA when the block is exhausted."""
        origin, rules = self._traversal.origin, self._traversal.rules
        if self._reader.channel is None:
            channel = self._ingestion.next_channel(origin, rules)
            if not isinstance(channel, ReadyChannel):
                return channel or Flow.OUT_OF_DATA
            self._reader.open(channel, rules)
        popped = self._reader.pop(rules, origin.timestamp)
        return Flow.MORE if popped is Flow.OUT_OF_DATA else popped

    def discard_block(self) -> NeedData | None:
        """Discards the channels that complete in the L1 block, which is not after the safe head's origin.

        None when the block is exhausted. Each of their batches would be discarded, so they are not even decoded
        [BQ4, BS2]."""
        self._reader.close()
        while True:
            channel = self._ingestion.next_channel(self._traversal.origin, self._traversal.rules)
            if not isinstance(channel, ReadyChannel):
                return channel
            reason = ChannelBehindSafeHead(channel.id, self._traversal.origin.number)
            self._events.drop(DropEffect.DISCARDED, reason)

    def flush_channel(self) -> None:
        """Drop the channel being read, then the staging channel [E5b]."""
        self._reader.close()
        self._ingestion.flush()
