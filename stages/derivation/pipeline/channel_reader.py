"""The channel reader: the channel being read, batch by batch.

Decoding it is a task for a compute worker; here its result is handed on as the rules of the L1 block being read
allow."""

from collections import deque
from hashlib import sha256

import msgspec

from rollup_node.stages.derivation.codec.batches import DecodedBatch, RejectedBatch, SingularBatch, SpanBatch
from rollup_node.stages.derivation.codec.span_batch import SpanRules
from rollup_node.stages.derivation.pipeline.channel_bank import ReadyChannel
from rollup_node.stages.derivation.pipeline.ingestion import FrameIngestion
from rollup_node.stages.derivation.pipeline.l1_origins import L1Traversal
from rollup_node.stages.derivation.pipeline.outputs import Flow, Need, NeedData, NeedDecoded, PipelineEvents
from rollup_node.stages.derivation.reasons import channels as reasons
from rollup_node.stages.derivation.reasons.reason import Reason
from rollup_node.stages.derivation.tasks import DecodeChannel, DecodedChannel
from rollup_node.stages.messages.derivation import DropEffect
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.forks.rules import L1Rules


def span_rules(config: RollupConfig) -> SpanRules:
    """Return the constants of a chain that span batches are decoded with."""
    return SpanRules(config.l2_chain_id, config.genesis.l2_time, config.block_time)


def need_decoded(body: bytes, rules: L1Rules, span: SpanRules) -> NeedDecoded:
    """Return the task of decoding a channel that is opened at an L1 block with these rules [RD1], and its key."""
    return _with_key(DecodeChannel(body, rules.max_rlp_bytes_per_channel, rules.brotli, span))


def _with_key(task: DecodeChannel) -> NeedDecoded:
    key = sha256(msgspec.msgpack.encode((task.max_bytes, task.brotli, task.span, task.first)))
    key.update(task.body)
    return NeedDecoded(key.digest(), task)


def read_rejection(batch: DecodedBatch, rules: L1Rules, time: int) -> Reason | None:
    """Return why a batch is dropped alone at an L1 block of this time: a span too early, or broken [BE5, BE6]."""
    if isinstance(batch, SingularBatch):
        return None
    if not rules.span_batches:
        return reasons.SpanBatchNotAllowed(time)
    return batch.reason if isinstance(batch, RejectedBatch) else None


class ChannelReader:
    """Holds at most one channel, which is opened and read to its end at the same L1 block."""

    def __init__(self, span: SpanRules, events: PipelineEvents) -> None:
        self._span, self._events = span, events
        self._need: NeedDecoded | None = None
        self._batches: deque[DecodedBatch] = deque()
        self._end: Reason | None = None
        self.channel: bytes | None = None

    def open(self, channel: ReadyChannel, rules: L1Rules) -> None:
        """Start on a channel, by the rules of this L1 block [RD1]."""
        self.close()
        self.channel = channel.id
        self._events.channel_opened(channel.id, len(channel.body))
        self._need = need_decoded(channel.body, rules, self._span)

    def close(self) -> None:
        self.channel = self._need = self._end = None
        self._batches.clear()

    def add_decoded(self, key: bytes, result: DecodedChannel) -> bool:
        """Bring the result of the task with this key; False if it is not the one that is needed."""
        need = self._need
        if need is None or need.key != key or self._batches or (result.end is None and not result.batches):
            return False
        self._batches.extend(result.batches)
        self._end = result.end
        if result.end is None:
            task = msgspec.structs.replace(need.task, first=need.task.first + len(result.batches))
            self._need = _with_key(task)
        else:
            self._need = None
        return True

    def pop(self, rules: L1Rules, time: int) -> SingularBatch | SpanBatch | NeedDecoded | Flow:
        """Return the next batch, or OUT_OF_DATA at a closed end, by `rules` and `time` of the L1 block being read."""
        if not self._batches:
            if self._need is not None:
                return self._need
            self._finish()
            return Flow.OUT_OF_DATA
        batch = self._batches.popleft()
        rejection = read_rejection(batch, rules, time)
        if rejection is not None:
            self._events.drop(DropEffect.DROPPED, rejection)
            return Flow.MORE
        assert not isinstance(batch, RejectedBatch) and self.channel is not None
        self._events.batch_read(self.channel, batch)
        return batch

    def _finish(self) -> None:
        if self._end is not None and self._end.kind is not reasons.StreamExhausted:
            self._events.drop(DropEffect.ENDED, self._end)
        self.close()


class ChannelBatches:
    """Joins L1 traversal, frame ingestion and channel reader: the batch stages' NextBatchProvider."""

    def __init__(
        self, traversal: L1Traversal, ingestion: FrameIngestion, reader: ChannelReader, events: PipelineEvents
    ) -> None:
        self._traversal, self._ingestion, self._reader, self._events = traversal, ingestion, reader, events

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
        """Discard the channels that complete in the L1 block, which is not after the safe head's origin.

        None when the block is exhausted. Each of their batches would be discarded, so they are not even decoded
        [BQ4, BS2]."""
        self._reader.close()
        while True:
            channel = self._ingestion.next_channel(self._traversal.origin, self._traversal.rules)
            if not isinstance(channel, ReadyChannel):
                return channel
            reason = reasons.ChannelBehindSafeHead(channel.id, self._traversal.origin.number)
            self._events.drop(DropEffect.DISCARDED, reason)

    def flush_channel(self) -> None:
        """Drop the channel being read, then the staging channel [E5b]."""
        self._reader.close()
        self._ingestion.flush()
