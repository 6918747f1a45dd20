"""Which L2 blocks the next channel takes, and when the batcher starts again from the safe head."""

from rollup_node.tools.batcher.channel_manager import (
    MAX_BLOCKS_PER_CHANNEL,
    SAFE_TIMEOUT,
    ChannelManager,
    SubmittedChannel,
)

GENESIS = bytes(32)


def _channel(first: int, last: int, sent_at: int = 10) -> SubmittedChannel:
    return SubmittedChannel(first, last, bytes([last]) * 32, (bytes([first]) * 32,), sent_at)


def _at_genesis() -> ChannelManager:
    manager = ChannelManager()
    manager.update_safe_head(0, GENESIS)
    return manager


def test_no_blocks_before_the_safe_head_is_known() -> None:
    assert list(ChannelManager().next_blocks(5, 1)) == []


def test_next_blocks_run_from_the_safe_to_the_unsafe_head() -> None:
    manager = _at_genesis()
    assert list(manager.next_blocks(3, 10)) == [1, 2, 3]
    manager.add(_channel(1, 3))
    assert list(manager.next_blocks(5, 11)) == [4, 5]
    assert manager.extends(bytes([3]) * 32)
    assert not manager.extends(bytes([9]) * 32)


def test_a_channel_has_a_limit_of_blocks() -> None:
    assert len(_at_genesis().next_blocks(10_000, 10)) == MAX_BLOCKS_PER_CHANNEL


def test_safe_channels_are_dropped() -> None:
    manager = _at_genesis()
    manager.add(_channel(1, 3))
    manager.add(_channel(4, 6))
    manager.update_safe_head(3, bytes([3]) * 32)
    assert [channel.first for channel in manager.submitted] == [4]
    assert manager.next_block == 7


def test_a_safe_head_beyond_what_is_submitted_moves_the_start() -> None:
    manager = _at_genesis()
    manager.update_safe_head(8, bytes([8]) * 32)
    assert list(manager.next_blocks(9, 10)) == [9]


def test_timeout_and_restart() -> None:
    manager = _at_genesis()
    manager.add(_channel(1, 3, sent_at=10))
    assert not manager.timed_out(10 + SAFE_TIMEOUT)
    assert manager.timed_out(11 + SAFE_TIMEOUT)
    manager.restart()
    manager.update_safe_head(0, GENESIS)
    assert list(manager.next_blocks(2, 11)) == [1, 2]
    assert manager.restarts == 1


def test_one_channel_per_l1_block() -> None:
    manager = _at_genesis()
    manager.add(_channel(1, 3, sent_at=10))
    assert list(manager.next_blocks(5, 10)) == []
    assert list(manager.next_blocks(5, 11)) == [4, 5]
