"""Token buckets against a slow count."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollup_node.stages.p2p.reqresp.rate_limits import MAX_PEERS, RequestLimiter, TokenBucket


def test_a_burst_and_then_the_rate() -> None:
    bucket = TokenBucket(4.0, 15.0)
    for _ in range(15):
        assert bucket.wait(100.0) == 0.0
        bucket.take(100.0)
    assert bucket.wait(100.0) == pytest.approx(0.25)
    bucket.take(100.0)
    assert bucket.wait(100.0) == pytest.approx(0.5)
    assert bucket.wait(100.5) == pytest.approx(0.0)
    assert bucket.wait(1000.0) == 0.0
    bucket.take(1000.0, 15.0)
    assert bucket.wait(1000.0) == pytest.approx(0.25), "it never held more than the burst"


@settings(max_examples=40)
@given(st.lists(st.floats(0, 3), max_size=80))
def test_never_more_than_burst_and_rate(pauses: list[float]) -> None:
    bucket, now, taken = TokenBucket(4.0, 15.0), 50.0, 0
    for pause in pauses:
        now += pause
        if bucket.wait(now) <= 0:
            bucket.take(now)
            taken += 1
    assert taken <= 15 + 4 * (now - 50.0) + 1e-6


def test_both_limits_hold_and_memory_is_bounded() -> None:
    buckets = RequestLimiter()
    for number in range(40):
        peer = bytes([number % 3])
        assert buckets.delay(peer, 0.0) == 0.0
        buckets.consume(peer, 0.0)
    assert buckets.delay(b"new", 0.0) == pytest.approx(0.05), "the limit over all"
    assert buckets.delay(bytes(1), 0.05) == pytest.approx(0.0)
    buckets.charge(bytes(1), 15.0, 10.0)
    assert buckets.delay(bytes(1), 10.0) == pytest.approx(0.25) and buckets.delay(b"new", 10.0) == 0.0
    for number in range(MAX_PEERS + 5):
        buckets.delay(number.to_bytes(4, "big"), 10.0)
    assert len(buckets._peers) == MAX_PEERS
