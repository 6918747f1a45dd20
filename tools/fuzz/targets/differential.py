"""Channel bodies decoded three times: as a worker does it, in the process, and by the reference decoder."""

import zlib
from random import Random

import brotli

from rollup_node.ipc.wire.codec import Codec
from rollup_node.stages.derivation.codec.batches import DecodedBatch, RejectedBatch, SingularBatch
from rollup_node.stages.derivation.codec.channel_body import read_batches
from rollup_node.stages.derivation.codec.span_batch import SpanRules
from rollup_node.stages.derivation.reasons.reason import Reason
from rollup_node.stages.derivation.tasks import DecodeChannel, Result, Task, run
from rollup_node.stages.protocol import rlp
from rollup_node.tools.fuzz.targets import seeds
from rollup_node.tools.fuzz.targets.batch_data import MAX_BLOCKS
from rollup_node.tools.fuzz.targets.reference import (
    Malformed,
    ReferenceBatch,
    ReferenceSingular,
    ReferenceSpan,
    reference_batches,
)
from rollup_node.tools.fuzz.targets.target import FuzzTarget

LIMIT = 1_000_000
RULES = SpanRules(seeds.CHAIN_ID, seeds.GENESIS_TIME, seeds.BLOCK_TIME)
TASKS, RESULTS = Codec(Task), Codec(Result)


def stream(data: bytes) -> object:
    """Return the decompressed bytes of a channel, which are compressed here: damage reaches the batches."""
    return body(zlib.compress(data, 1) if len(data) & 1 else b"\x01" + bytes(brotli.compress(data, quality=1)))


def body(data: bytes) -> object:
    """Return a channel body. Where its compression is damaged, worker and process are compared alone."""
    here: list[DecodedBatch] = []
    for read_batch in read_batches(data, LIMIT, True, RULES):
        if isinstance(read_batch, Reason):
            end = read_batch
        else:
            here.append(read_batch)
    by_worker = RESULTS.decode(RESULTS.encode(run(TASKS.decode(TASKS.encode(DecodeChannel(data, LIMIT, True, RULES))))))
    assert (by_worker.batches, by_worker.end) == (tuple(here), end), "worker and process differ"
    if any(isinstance(item, SingularBatch | RejectedBatch) or item.block_count <= MAX_BLOCKS for item in here):
        try:
            model = reference_batches(data, LIMIT, RULES.chain_id, RULES.genesis_time, RULES.block_time)
        except Malformed:
            return "damaged", end and end.name
        assert [*map(_plain, here)] == model, "process and reference differ"
    return min(3, len(here)), end and end.name


def _plain(batch: DecodedBatch) -> ReferenceBatch:
    if isinstance(batch, RejectedBatch):
        return None
    if isinstance(batch, SingularBatch):
        fields = batch.parent_hash, batch.epoch_number, batch.epoch_hash, batch.timestamp
        return ReferenceSingular(*fields, tuple(batch.transactions))
    blocks = ((block.timestamp, block.epoch_number, tuple(block.transactions)) for block in batch.blocks())
    return ReferenceSpan(tuple(blocks), batch.parent_check, batch.origin_check)


def _stream(chance: Random) -> bytes:
    return b"".join(rlp.encode(seeds.batch(chance)) for _ in range(chance.randint(1, 3)))


TARGETS = {
    "decode-body": FuzzTarget("batcher key", body, seeds.body),
    "decode-stream": FuzzTarget("batcher key", stream, _stream),
}
"""The targets by name."""
