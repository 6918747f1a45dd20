"""The reference decoder reads what the batcher writes, and refuses what is damaged."""

from dataclasses import replace
from random import Random

import pytest

from rollup_node.tools.batcher.batches import singular_batch, span_batch
from rollup_node.tools.batcher.channels import Compression, channel_body
from rollup_node.tools.fuzz.targets import seeds
from rollup_node.tools.fuzz.targets.reference import (
    Malformed,
    ReferenceBatch,
    ReferenceSingular,
    ReferenceSpan,
    reference_batches,
)

CHAIN = (seeds.CHAIN_ID, seeds.GENESIS_TIME, seeds.BLOCK_TIME)


def read(body: bytes, limit: int = 1_000_000) -> list[ReferenceBatch]:
    return reference_batches(body, limit, *CHAIN)


@pytest.mark.parametrize("compression", Compression)
def test_batches_of_the_batcher(compression: Compression) -> None:
    blocks = seeds.blocks(Random(3), 9)
    span = span_batch(blocks, seeds.GENESIS_TIME, blocks[0].epoch.number)
    first, second = read(channel_body([singular_batch(blocks[0]), span], compression))
    assert isinstance(first, ReferenceSingular) and isinstance(second, ReferenceSpan)
    assert first.transactions == tuple(blocks[0].transactions)
    assert [(time, epoch) for time, epoch, _ in second.blocks] == [
        (each.timestamp, each.epoch.number) for each in blocks
    ]
    assert [raws for _, _, raws in second.blocks] == [tuple(each.transactions) for each in blocks]


def test_columns_of_a_post_exec_transaction() -> None:
    """Its batch is dropped alone where one of them is filled [CV6]."""
    block = replace(seeds.blocks(Random(3), 1)[0], transactions=(b"\x7d\xc0",))
    whole = span_batch([block], seeds.GENESIS_TIME, block.epoch.number)
    size = len(whole)
    for at in (size - 1, size - 2, size - 5, size - 68, size - 69):
        damaged = bytearray(whole)
        damaged[at] ^= 1
        assert read(channel_body([bytes(damaged), whole], Compression.ZLIB))[0] is None, at
    (found,) = read(channel_body([whole], Compression.ZLIB))
    assert isinstance(found, ReferenceSpan) and found.blocks[0][2] == (b"\x7d\xc0",)


def test_the_limit_ends_a_channel() -> None:
    batch = singular_batch(seeds.blocks(Random(3), 1)[0])
    body = channel_body([batch, batch], Compression.ZLIB)
    assert len(read(body, 2 * len(batch) - 1)) == 1


def test_damage_ends_a_channel() -> None:
    body = channel_body([singular_batch(seeds.blocks(Random(3), 1)[0])], Compression.ZLIB)
    with pytest.raises(Malformed):
        read(body[:-5])
    assert read(channel_body([b"\x05"], Compression.ZLIB)) == []
