"""A channel read as the node reads it: by the rules of an L1 block, its decoding as a task for a compute worker."""

from typing import NamedTuple

from rollup_node.stages.derivation.codec.batches import SingularBatch, SpanBatch
from rollup_node.stages.derivation.pipeline.channel_bank import ReadyChannel
from rollup_node.stages.derivation.pipeline.channel_reader import ChannelReader, span_rules
from rollup_node.stages.derivation.pipeline.outputs import Flow, NeedDecoded, PipelineEvents
from rollup_node.stages.derivation.reasons.reason import AnyKind, Dropped, Reason
from rollup_node.stages.derivation.tasks import run
from rollup_node.stages.messages.derivation import DropEffect
from rollup_node.tools.batcher.channels import Compression, channel_body
from tests.conformance.kit.chain import GENESIS_TIME, L1_BLOCK_TIME, forks_until, rollup
from tests.conformance.kit.notation import channel_id

LATEST = forks_until("lagoon")


class ReadResult(NamedTuple):
    """The batches of a channel in order, and what was dropped with them."""

    batches: list[SingularBatch | SpanBatch]
    dropped: list[Dropped]

    @property
    def times(self) -> list[int]:
        """The time of each batch's first block, in seconds after genesis."""
        return [
            (batch.timestamp if isinstance(batch, SingularBatch) else batch.first_timestamp) - GENESIS_TIME
            for batch in self.batches
        ]

    @property
    def drops(self) -> list[tuple[DropEffect, AnyKind]]:
        """Effect and reason of each drop."""
        return [(item.effect, item.reason.kind) for item in self.dropped]

    @property
    def reason(self) -> Reason | None:
        """The one reason for which something was dropped, None if nothing was."""
        if not self.dropped:
            return None
        (dropped,) = self.dropped
        return dropped.reason

    @property
    def reason_type(self) -> AnyKind | None:
        """As `reason`, without its values."""
        return None if self.reason is None else self.reason.kind


def read_batches(*batches: bytes, fork: str) -> ReadResult:
    """Read a channel with these encoded batches by the rules of a fork."""
    return read_channel(channel_body(batches, Compression.ZLIB), forks_until(fork))


def read_channel(body: bytes, forks: dict[str, int] = LATEST, seconds: int = L1_BLOCK_TIME) -> ReadResult:
    """Read a channel body at an L1 block this many seconds after genesis."""
    config, events = rollup(forks), PipelineEvents()
    time = GENESIS_TIME + seconds
    rules = config.schedule().l1(time)
    reader = ChannelReader(span_rules(config), events)
    reader.open(ReadyChannel(channel_id("A"), body), rules)
    batches = []
    while (popped := reader.pop(rules, time)) is not Flow.OUT_OF_DATA:
        if isinstance(popped, NeedDecoded):
            assert reader.add_decoded(popped.key, run(popped.task))
        elif not isinstance(popped, Flow):
            batches.append(popped)
    assert reader.channel is None
    return ReadResult(batches, list(events.drops))
