"""Decompression bombs: small files, large streams."""

import zlib
from collections.abc import Callable
from random import Random

import pytest

from rollup_node.stages.derivation.codec.channel_body import open_body
from rollup_node.stages.derivation.codec.rlp_stream import read_items
from rollup_node.stages.derivation.reasons.reason import Reason
from rollup_node.tools.fuzz import bombs


@pytest.mark.parametrize("stream", bombs.STREAMS, ids=lambda stream: stream.__name__)
def test_streams_have_about_the_requested_size(stream: Callable[[int], bombs.Stream]) -> None:
    for size in (150_000, 3_000_000):
        assert 0.9 * size < sum(map(len, stream(size))) < 1.2 * size + 1000


def test_the_largest_items_are_within_the_limit_of_a_channel() -> None:
    for stream in (bombs.one_item, bombs.full_span, bombs.long_span, bombs.empty_transactions):
        compressor = zlib.compressobj(1)
        body = b"".join([*map(compressor.compress, stream(18_000_000)), compressor.flush()])
        reader = open_body(body, 100_000_000, True)
        assert not isinstance(reader, Reason)
        assert isinstance(next(read_items(reader, 100_000_000)), bytes)


def test_bombs_of_every_kind_are_small() -> None:
    chance = Random(1)
    for kind, generators in bombs.BOMBS.items():
        for generate in generators:
            assert len(generate(chance, 300_000)) < 500_000, kind
