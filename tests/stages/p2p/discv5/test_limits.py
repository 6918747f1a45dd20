"""Limits of rate."""

from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.p2p.discv5.limits import KeyedRateLimiter, TokenBucket


def test_a_burst_then_a_rate() -> None:
    bucket = TokenBucket(rate=2.0, burst=3.0)
    assert [bucket.take(10.0) for _ in range(5)] == [True, True, True, False, False]
    assert [bucket.take(10.5), bucket.take(10.5)] == [True, False]
    assert sum(bucket.take(100.0) for _ in range(10)) == 3


@given(st.lists(st.floats(0, 20), max_size=100))
def test_never_more_than_burst_and_rate_allow(times: list[float]) -> None:
    bucket = TokenBucket(rate=2.0, burst=3.0)
    assert sum(bucket.take(time) for time in sorted(times)) <= 3 + 2 * 20 + 1


def test_a_clock_that_goes_back_gives_nothing() -> None:
    bucket = TokenBucket(rate=1.0, burst=1.0)
    assert bucket.take(10.0) and not bucket.take(5.0)


def test_groups_are_apart_and_few_are_kept() -> None:
    limit = KeyedRateLimiter(rate=1.0, burst=1.0, most=10)
    assert limit.take(b"a", 0.0) and limit.take(b"b", 0.0) and not limit.take(b"a", 0.0)
    for number in range(100):
        limit.take(bytes([number]), 0.0)
    assert len(limit) == 10
