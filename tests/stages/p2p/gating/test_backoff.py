"""Backoff of dials to a peer."""

from rollup_node.stages.p2p.gating.backoff import PeerBackoff

PEER = b"peer"


def test_delays_double_up_to_the_maximum() -> None:
    backoff = PeerBackoff(initial=1.0, maximum=10.0)
    assert backoff.retry_at(PEER) == 0.0
    assert [backoff.failed(PEER, 100.0) for _ in range(6)] == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]
    assert backoff.retry_at(PEER) == 110.0
    for _ in range(2000):
        assert backoff.failed(PEER, 100.0) == 10.0
    backoff.succeeded(PEER)
    assert backoff.retry_at(PEER) == 0.0 and backoff.failed(PEER, 5.0) == 1.0


def test_the_number_of_peers_is_bounded() -> None:
    backoff = PeerBackoff()
    for number in range(10_050):
        backoff.failed(str(number).encode(), 0.0)
    assert backoff.retry_at(b"49") == 0.0 and backoff.retry_at(b"50") == 1.0
