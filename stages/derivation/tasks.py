"""What compute workers do for derivation: decode a channel body into batches by its rules [W3 to W5]."""

import msgspec

from rollup_node.stages.derivation.codec.batches import DecodedBatch, batch_memory
from rollup_node.stages.derivation.codec.channel_body import read_batches
from rollup_node.stages.derivation.codec.span_batch import SpanRules
from rollup_node.stages.derivation.reasons.reason import Reason

MAX_BATCHES = 10_000
MAX_RESULT_BYTES = 16_000_000
"""Bytes of memory of the batches in a result, about; one batch may alone be larger."""


class DecodeChannel(msgspec.Struct, frozen=True, array_like=True, tag="DecodeChannel"):
    """Decode `body` up to `max_bytes` decompressed bytes, from batch number `first` on; `brotli`: it is allowed."""

    body: bytes
    max_bytes: int
    brotli: bool
    span: SpanRules
    first: int = 0


class DecodedChannel(msgspec.Struct, frozen=True, array_like=True, tag="DecodedChannel"):
    """The batches from `first` on, and why there are no more.

    With `end` None there are more, for a task with a higher `first`: so the size of a result is bounded, whatever
    the channel contains."""

    batches: tuple[DecodedBatch, ...]
    end: Reason | None


Task = DecodeChannel
Result = DecodedChannel


def run(task: Task) -> Result:
    """Decode MAX_BATCHES batches or about MAX_RESULT_BYTES; damage is the channel's `end` or a rejected batch."""
    batches: list[DecodedBatch] = []
    size = 0
    for batch in read_batches(task.body, task.max_bytes, task.brotli, task.span, task.first):
        if isinstance(batch, Reason):
            return DecodedChannel(tuple(batches), batch)
        if len(batches) == MAX_BATCHES or size > MAX_RESULT_BYTES:
            return DecodedChannel(tuple(batches), None)
        batches.append(batch)
        size += batch_memory(batch)
    return DecodedChannel(tuple(batches), None)
