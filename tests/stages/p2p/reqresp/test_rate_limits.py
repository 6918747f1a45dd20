"""Rate limits of requests: over all peers, and of each."""

import pytest

from rollup_node.stages.p2p.reqresp.rate_limits import MAX_PEERS, RequestLimiter


def test_both_limits_hold_and_memory_is_bounded() -> None:
    limiter = RequestLimiter()
    for number in range(40):
        peer = bytes([number % 3])
        assert limiter.delay(peer, 0.0) == 0.0
        limiter.consume(peer, 0.0)
    assert limiter.delay(b"new", 0.0) == pytest.approx(0.05), "the limit over all"
    assert limiter.delay(bytes(1), 0.05) == pytest.approx(0.0)
    limiter.charge(bytes(1), 15.0, 10.0)
    assert limiter.delay(bytes(1), 10.0) == pytest.approx(0.25) and limiter.delay(b"new", 10.0) == 0.0
    for number in range(MAX_PEERS + 5):
        limiter.delay(number.to_bytes(4, "big"), 10.0)
    assert len(limiter.peers) == MAX_PEERS
