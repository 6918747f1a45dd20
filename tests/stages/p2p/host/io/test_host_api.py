"""A connected peer as services see it."""

import pytest

from rollup_node.stages.p2p.host.io.host_api import ConnectedPeer


def test_latency_is_a_moving_average() -> None:
    peer = ConnectedPeer(b"peer")
    peer.add_latency(1.0)
    assert peer.latency == 1.0
    peer.add_latency(2.0)
    assert peer.latency == pytest.approx(1.1)
