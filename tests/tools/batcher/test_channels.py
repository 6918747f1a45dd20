"""Channels, frames and blobs. The tests of the derivation read back what the encoder writes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.blobs.tasks import MAX_DATA
from rollup_node.tools.batcher.channels import (
    CHANNEL_ID_BYTES,
    FRAME_OVERHEAD,
    MAX_BLOCKS_PER_CHANNEL,
    SAFE_TIMEOUT,
    ChannelManager,
    SubmittedChannel,
    encode_blob,
    frames,
)

CHANNEL = bytes(range(CHANNEL_ID_BYTES))


@given(st.binary(max_size=500), st.integers(FRAME_OVERHEAD + 1, 200))
def test_frames_join_to_the_body(body: bytes, max_frame_bytes: int) -> None:
    result = frames(CHANNEL, body, max_frame_bytes)
    assert b"".join(frame.data for frame in result) == body
    assert [frame.number for frame in result] == list(range(len(result)))
    assert [frame.is_last for frame in result] == [False] * (len(result) - 1) + [True]
    assert all(len(frame.encode()) <= max_frame_bytes for frame in result)


def test_a_blob_has_a_limit() -> None:
    with pytest.raises(ValueError, match="130044"):
        encode_blob(bytes(MAX_DATA + 1))


GENESIS = bytes(32)


def _channel(first: int, last: int, sent_at: int = 10) -> SubmittedChannel:
    return SubmittedChannel(last, bytes([last]) * 32, (bytes([first]) * 32,), sent_at)


@pytest.fixture
def manager() -> ChannelManager:
    """Return one whose safe head is the genesis block."""
    result = ChannelManager()
    result.update_safe_head(0, GENESIS)
    return result


def test_no_blocks_before_the_safe_head_is_known() -> None:
    assert list(ChannelManager().next_blocks(5, 1)) == []


def test_next_blocks_run_from_the_safe_to_the_unsafe_head(manager: ChannelManager) -> None:
    assert list(manager.next_blocks(3, 10)) == [1, 2, 3]
    assert len(manager.next_blocks(10_000, 10)) == MAX_BLOCKS_PER_CHANNEL
    manager.add(_channel(1, 3))
    assert list(manager.next_blocks(5, 10)) == [], "one channel per L1 block"
    assert list(manager.next_blocks(5, 11)) == [4, 5]
    assert manager.extends(bytes([3]) * 32) and not manager.extends(bytes([9]) * 32)


def test_safe_channels_are_dropped(manager: ChannelManager) -> None:
    manager.add(_channel(1, 3))
    manager.add(_channel(4, 6))
    manager.update_safe_head(3, bytes([3]) * 32)
    assert [channel.last for channel in manager.submitted] == [6]
    assert manager.next_block == 7


def test_a_safe_head_beyond_what_is_submitted_moves_the_start(manager: ChannelManager) -> None:
    manager.update_safe_head(8, bytes([8]) * 32)
    assert list(manager.next_blocks(9, 10)) == [9]


def test_timeout_and_restart(manager: ChannelManager) -> None:
    manager.add(_channel(1, 3, sent_at=10))
    assert not manager.timed_out(10 + SAFE_TIMEOUT)
    assert manager.timed_out(11 + SAFE_TIMEOUT)
    manager.restart()
    manager.update_safe_head(0, GENESIS)
    assert list(manager.next_blocks(2, 11)) == [1, 2]
    assert manager.restarts == 1
