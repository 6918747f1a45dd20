"""Channels and their batches in the L1 block being read, as the batch stages pull them."""

from rollup_node.stages.derivation.codec.batches import SingularBatch, SpanBatch
from rollup_node.stages.derivation.pipeline.channel_bank import ReadyChannel
from rollup_node.stages.derivation.pipeline.channel_reader import ChannelReader
from rollup_node.stages.derivation.pipeline.events import Trace
from rollup_node.stages.derivation.pipeline.ingestion import Intake
from rollup_node.stages.derivation.pipeline.l1_traversal import L1Traversal
from rollup_node.stages.derivation.pipeline.outputs import Flow, Need, NeedBlobs
from rollup_node.stages.derivation.reasons.reasons import Effect, Why


class ChannelSource:
    """Joins traversal, intake and reader."""

    def __init__(self, traversal: L1Traversal, intake: Intake, reader: ChannelReader, trace: Trace) -> None:
        self._traversal = traversal
        self._intake = intake
        self._reader = reader
        self._trace = trace

    def pull(self) -> SingularBatch | SpanBatch | Need | Flow:
        """The next batch of the L1 block."""
        origin, rules = self._traversal.origin, self._traversal.rules
        if self._reader.channel is None:
            channel = self._intake.next_channel(origin, rules)
            if not isinstance(channel, ReadyChannel):
                return channel or Flow.OUT_OF_DATA
            self._reader.open(channel, rules)
        popped = self._reader.pop(rules, origin.timestamp)
        return Flow.MORE if popped is Flow.OUT_OF_DATA else popped

    def skip(self) -> NeedBlobs | None:
        """Throws away what completes at an L1 block that is not after the safe head's origin (BQ4, BS2). Its batches
        would be discarded one by one, so they are not even read."""
        self._reader.close()
        while True:
            channel = self._intake.next_channel(self._traversal.origin, self._traversal.rules)
            if not isinstance(channel, ReadyChannel):
                return channel
            reason = Why.BEHIND(channel=channel.id, origin=self._traversal.origin.number)
            self._trace.note(Effect.DISCARDED, reason)

    def flush(self) -> None:
        """Forgets the channel being read and the one being put together."""
        self._reader.close()
        self._intake.flush()
