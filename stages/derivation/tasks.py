"""What compute workers do for derivation: read a complete channel body into batches, a pure function of its bytes and
of the rules by which it is read (derivation-rules 25, W3 to W5)."""

import msgspec

from rollup_node.stages.derivation.codec.batches import DecodedBatch, RefusedBatch
from rollup_node.stages.derivation.codec.channel_body import read_batches
from rollup_node.stages.derivation.codec.span_batch import SpanRules
from rollup_node.stages.derivation.reasons.reasons import Reason

MAX_BATCHES = 10_000
MAX_TRANSACTION_BYTES = 32_000_000


class DecodeChannel(msgspec.Struct, frozen=True, array_like=True, tag="DecodeChannel"):
    """Read `body`, of which at most `max_bytes` decompressed bytes count. Batches before number `first` were had."""

    body: bytes
    max_bytes: int
    brotli: bool
    span: SpanRules
    first: int = 0


class DecodedChannel(msgspec.Struct, frozen=True, array_like=True, tag="DecodedChannel"):
    """The batches from `first` on, and why there are no more after them; with `end` None there are more, which a task
    with a higher `first` gives. So one result stays bounded whatever the channel holds."""

    batches: tuple[DecodedBatch, ...]
    end: Reason | None


Task = DecodeChannel
Result = DecodedChannel


def run(task: Task) -> Result:
    """Never raises for bad data: damage is the `end` of the channel or a refused batch."""
    batches: list[DecodedBatch] = []
    size = 0
    for outcome in read_batches(task.body, task.max_bytes, task.brotli, task.span, task.first):
        if isinstance(outcome, Reason):
            return DecodedChannel(tuple(batches), outcome)
        if len(batches) == MAX_BATCHES or size > MAX_TRANSACTION_BYTES:
            return DecodedChannel(tuple(batches), None)
        batches.append(outcome)
        if not isinstance(outcome, RefusedBatch):
            size += sum(map(len, outcome.transactions))
    return DecodedChannel(tuple(batches), None)
