"""Token buckets: bursts, rates, bounds of keys."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollup_node.stages.protocol.pacing import KeyedTokenBuckets, TokenBucket, backoff


def test_allow_permits_a_burst_and_then_the_rate() -> None:
    bucket = TokenBucket(rate=2.0, burst=3.0)
    assert [bucket.allow(10.0) for _ in range(5)] == [True, True, True, False, False]
    assert [bucket.allow(10.5), bucket.allow(10.5)] == [True, False]
    assert sum(bucket.allow(100.0) for _ in range(10)) == 3


def test_consume_takes_ahead_and_delay_is_the_time_to_wait() -> None:
    bucket = TokenBucket(4.0, 15.0)
    for _ in range(15):
        assert bucket.delay(100.0) == 0.0
        bucket.consume(100.0)
    assert bucket.delay(100.0) == pytest.approx(0.25)
    bucket.consume(100.0)
    assert bucket.delay(100.0) == pytest.approx(0.5)
    assert bucket.delay(100.5) == pytest.approx(0.0)
    assert bucket.delay(1000.0) == 0.0
    bucket.consume(1000.0, 15.0)
    assert bucket.delay(1000.0) == pytest.approx(0.25), "it never held more than the burst"


@settings(max_examples=40)
@given(st.lists(st.floats(0, 20), max_size=100))
def test_allow_never_permits_more_than_burst_and_rate(times: list[float]) -> None:
    bucket = TokenBucket(rate=2.0, burst=3.0)
    assert sum(bucket.allow(time) for time in sorted(times)) <= 3 + 2 * 20 + 1


@settings(max_examples=40)
@given(
    rate=st.floats(0.5, 100),
    burst=st.integers(1, 50),
    takes=st.lists(st.tuples(st.integers(1, 50), st.floats(0, 3)), min_size=1, max_size=40),
)
def test_waiting_for_the_end_of_debt_never_exceeds_burst_and_rate(
    rate: float, burst: int, takes: list[tuple[int, float]]
) -> None:
    bucket, now, passed = TokenBucket(rate, burst), 0.0, 0
    for count, pause in takes:
        now += pause
        bucket.consume(now, count)
        now += bucket.delay(now, 0.0)
        passed += count
        assert passed <= burst + rate * now + 1e-6


def test_another_rate_counts_from_the_last_use_on() -> None:
    bucket = TokenBucket(1.0, 10.0)
    assert bucket.consume(0.0, 12.0) == -2.0 and bucket.delay(0.0, 0.0) == 2.0
    bucket.rate = 4.0
    assert bucket.delay(0.0, 0.0) == 0.5 and bucket.consume(1.0, 0.0) == 2.0


@pytest.mark.fault("F58")
def test_a_clock_that_goes_back_refills_nothing() -> None:
    bucket = TokenBucket(rate=1.0, burst=1.0)
    assert bucket.allow(10.0) and not bucket.allow(5.0)


def test_keys_have_separate_buckets_of_which_the_last_used_are_kept() -> None:
    buckets: KeyedTokenBuckets[bytes] = KeyedTokenBuckets(rate=1.0, burst=1.0, max_keys=10)
    assert buckets[b"a"].allow(0.0) and buckets[b"b"].allow(0.0) and not buckets[b"a"].allow(0.0)
    for number in range(100):
        buckets[bytes([number])].allow(0.0)
    assert len(buckets) == 10


def test_pauses_double_up_to_the_most() -> None:
    assert [backoff(failures, 0.5, 5.0) for failures in range(7)] == [0.5, 0.5, 1.0, 2.0, 4.0, 5.0, 5.0]


@given(st.integers(0, 10**400))
def test_any_number_of_failures_has_a_pause(failures: int) -> None:
    assert 0.5 <= backoff(failures, 0.5, 8.0) <= backoff(failures + 1, 0.5, 8.0) <= 8.0
