"""The average of round-trip times."""

import pytest

from rollup_node.stages.p2p.host.ping import Latency


def test_latency_is_a_moving_average() -> None:
    latency = Latency()
    assert latency.average is None
    latency.add(1.0)
    assert latency.average == 1.0
    latency.add(2.0)
    assert latency.average == pytest.approx(1.1)
