"""Channels, frames and blobs: what the encoder writes, the derivation's decoder reads back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.derivation.codec import frames as decoder
from rollup_node.stages.derivation.codec.batches import SingularBatch
from rollup_node.stages.derivation.codec.channel_body import read_batches
from rollup_node.stages.derivation.codec.span_batch import SpanRules
from rollup_node.stages.derivation.reasons.reason import Reason
from rollup_node.stages.protocol.blob_codec import MAX_DATA, decode_blob
from rollup_node.stages.protocol.types import BlockId
from rollup_node.tools.batcher.batches import BatchBlock, singular_batch
from rollup_node.tools.batcher.channels import (
    CHANNEL_ID_BYTES,
    FRAME_OVERHEAD,
    Compression,
    Frame,
    batcher_data,
    channel_body,
    encode_blob,
    frames,
)

CHANNEL = bytes(range(CHANNEL_ID_BYTES))


@pytest.mark.parametrize("compression", list(Compression))
def test_channel_body_round_trip(compression: Compression) -> None:
    blocks = [BatchBlock(b"p" * 32, time, BlockId(5, b"e" * 32), (b"\x02" * 90,)) for time in (2, 4, 6)]
    body = channel_body(map(singular_batch, blocks), compression)
    *batches, end = read_batches(body, 10_000, True, SpanRules(1, 0, 2))
    assert [batch.timestamp for batch in batches if isinstance(batch, SingularBatch)] == [2, 4, 6]
    assert (len(batches), isinstance(end, Reason)) == (3, True)


def test_brotli_channels_begin_with_their_version_byte() -> None:
    assert channel_body([b"\0"], Compression.BROTLI)[0] == 1
    assert channel_body([b"\0"], Compression.ZLIB)[0] & 0x0F == 8


@given(st.binary(max_size=500), st.integers(FRAME_OVERHEAD + 1, 200))
def test_frames_join_to_the_body(body: bytes, max_frame_bytes: int) -> None:
    found = frames(CHANNEL, body, max_frame_bytes)
    assert b"".join(frame.data for frame in found) == body
    assert [frame.number for frame in found] == list(range(len(found)))
    assert [frame.is_last for frame in found] == [False] * (len(found) - 1) + [True]
    assert all(len(frame.encode()) <= max_frame_bytes for frame in found)


def test_batcher_data_is_parsed_into_the_same_frames() -> None:
    sent = [Frame(CHANNEL, 0, b"abc", False), Frame(CHANNEL, 1, b"", True)]
    parsed = decoder.parse_frames(batcher_data(sent))
    assert isinstance(parsed, list)
    assert [(frame.channel, frame.number, frame.data, frame.is_last) for frame in parsed] == [
        (CHANNEL, 0, b"abc", False),
        (CHANNEL, 1, b"", True),
    ]


@pytest.mark.parametrize("size", [0, 1, 27, 28, 127, 128, 4096, MAX_DATA])
def test_blob_round_trip(size: int) -> None:
    data = bytes(index * 7 % 256 for index in range(size))
    assert decode_blob(encode_blob(data)) == data


def test_a_blob_has_a_limit() -> None:
    with pytest.raises(ValueError, match="130044"):
        encode_blob(bytes(MAX_DATA + 1))
