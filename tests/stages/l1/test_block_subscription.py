"""A client is sent every block that it requests, once, although messages get lost or repeated."""

from collections.abc import Callable

import pytest

from rollup_node.stages.l1.block_subscription import BlockSubscription
from rollup_node.stages.l1.prefetch_window import BlockRange, FetchFailure
from rollup_node.stages.messages.base import Problem
from rollup_node.stages.messages.l1 import L1BlockUnavailable
from rollup_node.stages.protocol.types import L1Block, L1Header


def block(number: int) -> L1Block:
    return L1Block(
        L1Header(number.to_bytes(32, "big"), number, bytes(32), 12 * number, bytes(32), 7, None, None), (), (), ()
    )


def send(subscription: BlockSubscription, cached: dict[int, L1Block], head: int | None, now: float = 0.0) -> list[int]:
    """Send all that is due; the numbers."""
    blocks = list(subscription.to_send(cached.get, head))
    for block in blocks:
        subscription.sent(block, now)
    return [block.header.number for block in blocks]


def no_failure(number: int) -> FetchFailure | None:
    return None


UNKNOWN, REFUSED, BAD = (Problem(None, "", text) for text in ("unknown", "refused", "bad"))


def failed_with(error: Problem | None) -> Callable[[int], FetchFailure | None]:
    return lambda number: FetchFailure(error, 1, 0.0)


CACHED = {number: block(number) for number in range(100)}


@pytest.fixture
def subscription() -> BlockSubscription:
    return BlockSubscription(0, 64, resend_after=0.5)


def test_blocks_are_sent_once(subscription: BlockSubscription) -> None:
    subscription.request(10, 4, 0.0)
    assert send(subscription, CACHED, 50) == [10, 11, 12, 13]
    assert send(subscription, CACHED, 50) == []
    subscription.request(12, 4, 0.1)
    assert send(subscription, CACHED, 50) == [14, 15]


def test_requesting_a_block_again_means_that_it_is_lost(subscription: BlockSubscription) -> None:
    subscription.request(10, 3, 0.0)
    send(subscription, CACHED, 50)
    subscription.request(10, 4, 0.4)
    assert send(subscription, CACHED, 50, 0.4) == [13]
    subscription.request(11, 3, 0.6)
    assert send(subscription, CACHED, 50, 0.6) == [11, 12]
    subscription.request(13, 1, 0.8)
    assert send(subscription, CACHED, 50, 0.8) == []


def test_confirmations_hide_the_newest_blocks() -> None:
    """[LHD9]"""
    subscription = BlockSubscription(4, 64, resend_after=0.5)
    subscription.request(45, 10, 0.0)
    assert subscription.wanted(50) == BlockRange(45, 46)
    assert send(subscription, CACHED, 50) == [45, 46]
    assert subscription.unavailable(50, UNKNOWN, no_failure) == L1BlockUnavailable(47, 46, None)
    assert subscription.wanted(50) is None
    assert subscription.wanted(51) == BlockRange(47, 47)
    assert subscription.unavailable(2, UNKNOWN, no_failure) == L1BlockUnavailable(47, 0, None)


def test_blocks_are_prefetched(subscription: BlockSubscription) -> None:
    subscription.request(10, 1, 0.0)
    assert subscription.wanted(1000) == BlockRange(10, 73)
    send(subscription, CACHED, 1000)
    assert subscription.wanted(1000) == BlockRange(11, 73)
    modest = BlockSubscription(0, 0, resend_after=0.2)
    modest.request(10, 2, 0.0)
    assert modest.wanted(1000) == BlockRange(10, 11)
    send(modest, CACHED, 1000)
    assert modest.wanted(1000) is None


def test_the_response_about_an_unavailable_block(subscription: BlockSubscription) -> None:
    assert subscription.unavailable(50, UNKNOWN, no_failure) is None
    subscription.request(51, 4, 0.0)
    assert subscription.unavailable(50, UNKNOWN, no_failure) == L1BlockUnavailable(51, 50, None)
    assert subscription.unavailable(None, REFUSED, no_failure) == L1BlockUnavailable(51, 0, REFUSED)
    assert subscription.unavailable(60, UNKNOWN, no_failure) is None
    assert subscription.unavailable(60, UNKNOWN, failed_with(BAD)) == L1BlockUnavailable(51, 60, BAD)


def test_a_request_is_bounded() -> None:
    subscription = BlockSubscription(0, 0, resend_after=0.5)
    subscription.request(0, 1 << 60, 0.0)
    wanted = subscription.wanted(1 << 60)
    assert wanted is not None
    assert wanted.last < 5000
