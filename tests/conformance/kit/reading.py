"""Channels read by the channel reader as at an L1 block: which batches come out, and what is said of the others."""

from typing import NamedTuple

from kit.chain import GENESIS_TIME, rollup
from rollup_node.stages.derivation import tasks
from rollup_node.stages.derivation.batches import SingularBatch, SpanBatch
from rollup_node.stages.derivation.channel_bank import ReadyChannel
from rollup_node.stages.derivation.channel_reader import ChannelReader, span_rules
from rollup_node.stages.derivation.needs import Flow, NeedDecoded
from rollup_node.stages.derivation.reasons import Effect, Reason
from rollup_node.stages.derivation.trace import Trace
from rollup_node.tools.batcher.channels import Compression, channel_body


class Reading(NamedTuple):
    """What came of a channel."""

    batches: list[SingularBatch | SpanBatch]
    said: list[tuple[Effect, Reason]]


def read_body(body: bytes, forks: dict[str, int], time: int = 0) -> Reading:
    """Reads a channel at an L1 block `time` seconds after genesis."""
    config = rollup(forks)
    schedule, trace = config.schedule(), Trace()
    rules = schedule.l1(GENESIS_TIME + time)
    reader = ChannelReader(schedule, span_rules(config), trace)
    reader.open(ReadyChannel(bytes(16), body), rules)
    batches: list[SingularBatch | SpanBatch] = []
    while reader.channel is not None:
        popped = reader.pop(rules, GENESIS_TIME + time)
        if isinstance(popped, NeedDecoded):
            assert reader.add_decoded(popped.key, tasks.run(popped.task))
        elif not isinstance(popped, Flow):
            batches.append(popped)
    return Reading(batches, [(each.effect, each.reason) for each in trace.dropped])


def read_batches(
    *batches: bytes, forks: dict[str, int], time: int = 0, compression: Compression = Compression.ZLIB
) -> Reading:
    """Reads a channel with these encoded batches."""
    return read_body(channel_body(batches, compression), forks, time)
