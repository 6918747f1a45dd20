"""The channel being read, batch by batch (derivation-rules 9). Reading it is a task that somebody else does; here its
result is given out as the rules of the L1 block being read allow."""

from collections import deque
from hashlib import sha256

import msgspec

from rollup_node.stages.derivation.codec.batches import DecodedBatch, RefusedBatch, SingularBatch, SpanBatch
from rollup_node.stages.derivation.codec.span_batch import SpanRules
from rollup_node.stages.derivation.pipeline.channel_bank import ReadyChannel
from rollup_node.stages.derivation.pipeline.events import Trace
from rollup_node.stages.derivation.pipeline.outputs import Flow, NeedDecoded
from rollup_node.stages.derivation.reasons.reasons import Effect, Reason, Why
from rollup_node.stages.derivation.tasks import DecodeChannel, DecodedChannel
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.forks.rules import L1Rules
from rollup_node.stages.protocol.forks.schedule import ForkSchedule


def span_rules(config: RollupConfig) -> SpanRules:
    """The constants of a chain that span batches are read with."""
    return SpanRules(config.l2_chain_id, config.genesis.l2_time, config.block_time)


def need_of(body: bytes, rules: L1Rules, span: SpanRules) -> NeedDecoded:
    """The task of reading a channel at an L1 block with these rules, under its key."""
    return _with_key(DecodeChannel(body, rules.max_rlp_bytes_per_channel, rules.brotli, span))


def _with_key(task: DecodeChannel) -> NeedDecoded:
    key = sha256(msgspec.msgpack.encode((task.max_bytes, task.brotli, task.span, task.first)))
    key.update(task.body)
    return NeedDecoded(key.digest(), task)


def reading_refusal(batch: DecodedBatch, rules: L1Rules, schedule: ForkSchedule, time: int) -> Reason | None:
    """Why this batch alone is dropped when it is read at an L1 block of that time (BE5, BE6, CV9)."""
    if isinstance(batch, SingularBatch):
        return None
    if not rules.span_batches:
        return Why.SPAN_EARLY(time=time)
    if isinstance(batch, RefusedBatch):
        return batch.reason
    earliest = batch.post_exec_time
    if earliest is None or schedule.l2(earliest).post_exec_transactions:
        return None
    return Why.SPAN_POST_EXEC(time=earliest)


class ChannelReader:
    """At most one channel, opened at the present L1 block and read up within it."""

    def __init__(self, schedule: ForkSchedule, span: SpanRules, trace: Trace) -> None:
        self._schedule = schedule
        self._span = span
        self._trace = trace
        self._need: NeedDecoded | None = None
        self._batches: deque[DecodedBatch] = deque()
        self._end: Reason | None = None
        self.channel: bytes | None = None

    def open(self, channel: ReadyChannel, rules: L1Rules) -> None:
        """Starts to read a channel by the rules of this L1 block (RD1)."""
        self.close()
        self.channel = channel.id
        self._need = need_of(channel.body, rules, self._span)

    def close(self) -> None:
        """Forgets the channel."""
        self.channel = self._need = self._end = None
        self._batches.clear()

    def add_decoded(self, key: bytes, result: DecodedChannel) -> bool:
        """Brings the result of the task; False if it is not what is needed."""
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
        """The next batch; OUT_OF_DATA when no channel is being read any more. `time` is that of the L1 block."""
        if not self._batches:
            if self._need is not None:
                return self._need
            self._finish()
            return Flow.OUT_OF_DATA
        batch = self._batches.popleft()
        refusal = reading_refusal(batch, rules, self._schedule, time)
        if refusal is not None:
            self._trace.note(Effect.DROPPED, refusal)
            return Flow.MORE
        assert not isinstance(batch, RefusedBatch)
        return batch

    def _finish(self) -> None:
        if self._end is not None and self._end.why is not Why.STREAM_DONE:
            self._trace.note(Effect.ENDED, self._end)
        self.close()
