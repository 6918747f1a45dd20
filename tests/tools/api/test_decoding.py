"""Batches in bytes: what `rollup-node decode` decodes, and what does not decode with its rule."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

import rollup_node
from rollup_node.stages.protocol.types import BlockId
from rollup_node.tools.batcher.batches import BatchBlock, singular_batch
from rollup_node.tools.batcher.channels import Compression, batcher_data, channel_body, encode_blob, frames

EPOCH = BlockId(100, b"\x0e" * 32)
CHANNEL = b"\xc1" * 16
BODY = channel_body(
    (singular_batch(BatchBlock(b"\x0a" * 32, time, EPOCH, (b"\x02a", b"\x02b"))) for time in (1000, 1002)),
    Compression.ZLIB,
)


def _split(outputs: Iterable[object]) -> tuple[list[rollup_node.DecodedBatch], list[rollup_node.DataError]]:
    outputs = list(outputs)
    batches = [item for item in outputs if isinstance(item, rollup_node.DecodedBatch)]
    return batches, [item for item in outputs if isinstance(item, rollup_node.DataError)]


def test_a_channel_and_the_blocks_of_its_batches() -> None:
    blocks = []
    for batch in rollup_node.decode_channel(BODY):
        assert isinstance(batch, rollup_node.DecodedBatch)
        assert (batch.kind, batch.blocks, batch.transactions, batch.parent) == ("singular", 1, 2, b"\x0a" * 32)
        assert repr(batch) == f"DecodedBatch('singular', first_timestamp={batch.first_timestamp}, blocks=1)"
        blocks += list(batch.l2_blocks())
    assert [(block.number, block.timestamp, block.transactions) for block in blocks] == [
        (None, 1000, (b"\x02a", b"\x02b")),
        (None, 1002, (b"\x02a", b"\x02b")),
    ]
    first = blocks[0]
    assert (first.epoch_number, first.epoch_hash, first.parent_hash) == (EPOCH.number, EPOCH.hash, b"\x0a" * 32)


@pytest.mark.parametrize("kind", ["data", "blob"])
def test_frames_of_several_inputs_in_any_order(kind: str) -> None:
    pieces = [batcher_data([frame]) for frame in frames(CHANNEL, BODY, 60)]
    assert len(pieces) > 1
    inputs = [encode_blob(piece) for piece in pieces] if kind == "blob" else pieces
    batches, failures = _split(rollup_node.decode_batches(reversed(inputs), kind))
    assert [batch.first_timestamp for batch in batches] == [1000, 1002] and failures == []
    assert {(batch.channel, batch.channel_bytes) for batch in batches} == {(CHANNEL, len(BODY))}


def test_what_does_not_decode_has_its_rule_and_its_place() -> None:
    batches, (failure,) = _split(rollup_node.decode_channel(b"\x00nothing"))
    assert (batches, failure.rule) == ([], "RD4") and str(failure).startswith("input 0: offset 0: channel ended early")
    _, (failure, *_) = _split(rollup_node.decode_batches([batcher_data(frames(CHANNEL, BODY, 60)[:1])]))
    assert str(failure).startswith(f"input 0: channel {CHANNEL.hex()}") and failure.rule


def test_an_input_is_read_when_its_batches_are_taken() -> None:
    """The inputs may be more than fits into memory."""
    read = []

    def inputs() -> Iterator[bytes]:
        for index in range(3):
            read.append(index)
            yield BODY

    outputs = rollup_node.decode_batches(inputs(), "channel")
    assert read == []
    next(outputs)
    assert read == [0]


def test_another_kind_is_an_input_error() -> None:
    with pytest.raises(rollup_node.InputError, match="kind='x' is none of transaction, blob, data"):
        rollup_node.decode_batches([b""], "x")


def test_a_real_span_has_the_numbers_of_its_chain(shared_data: Path) -> None:
    body = (shared_data / "channels" / "kona_batch.bin").read_bytes()
    (batch,), failures = _split(rollup_node.decode_channel(body, chain="op-mainnet"))
    assert (batch.blocks, batch.transactions, failures) == (143, 1766, [])
    assert [block.number for block in batch.l2_blocks()] == list(range(121_382_930, 121_383_073))
