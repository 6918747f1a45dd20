"""The batcher's plan: what is posted next, and when it begins again."""

from rollup_node.tools.batcher.channel_manager import (
    MAX_BLOCKS_PER_CHANNEL,
    SAFE_TIMEOUT,
    ChannelManager,
    SubmittedChannel,
)

GENESIS = bytes(32)


def _channel(first: int, last: int, sent_at: int = 10) -> SubmittedChannel:
    return SubmittedChannel(first, last, bytes([last]) * 32, (bytes([first]) * 32,), sent_at)


def test_nothing_is_wanted_before_the_safe_head_is_known() -> None:
    assert list(ChannelManager().wanted(5, 1)) == []


def test_blocks_after_the_safe_head_are_wanted_up_to_the_unsafe_head() -> None:
    plan = ChannelManager()
    plan.see_safe(0, GENESIS)
    assert list(plan.wanted(3, 10)) == [1, 2, 3]
    plan.sent(_channel(1, 3))
    assert list(plan.wanted(5, 11)) == [4, 5]
    assert plan.fits(bytes([3]) * 32)
    assert not plan.fits(bytes([9]) * 32)


def test_a_channel_is_bounded() -> None:
    plan = ChannelManager()
    plan.see_safe(0, GENESIS)
    assert len(plan.wanted(10_000, 10)) == MAX_BLOCKS_PER_CHANNEL


def test_what_became_safe_is_forgotten() -> None:
    plan = ChannelManager()
    plan.see_safe(0, GENESIS)
    plan.sent(_channel(1, 3))
    plan.sent(_channel(4, 6))
    plan.see_safe(3, bytes([3]) * 32)
    assert [channel.first for channel in plan.posted] == [4]
    assert plan.next_block == 7


def test_a_safe_head_beyond_what_was_posted_moves_the_start() -> None:
    plan = ChannelManager()
    plan.see_safe(0, GENESIS)
    plan.see_safe(8, bytes([8]) * 32)
    assert list(plan.wanted(9, 10)) == [9]


def test_an_overdue_channel_and_a_restart() -> None:
    plan = ChannelManager()
    plan.see_safe(0, GENESIS)
    plan.sent(_channel(1, 3, sent_at=10))
    assert not plan.overdue(10 + SAFE_TIMEOUT)
    assert plan.overdue(11 + SAFE_TIMEOUT)
    plan.restart()
    plan.see_safe(0, GENESIS)
    assert list(plan.wanted(2, 11)) == [1, 2]
    assert plan.restarts == 1


def test_one_channel_is_posted_for_each_l1_block() -> None:
    plan = ChannelManager()
    plan.see_safe(0, GENESIS)
    plan.sent(_channel(1, 3, sent_at=10))
    assert list(plan.wanted(5, 10)) == []
    assert list(plan.wanted(5, 11)) == [4, 5]
