"""Limits that follow from options."""

import pytest

from rollup_node.stages.p2p.config import ResourceLimits


@pytest.mark.parametrize(("option", "peers_hi", "maximum"), [(0, 30, 62), (0, 100, 200), (7, 30, 7)])
def test_the_maximum_of_connections(option: int, peers_hi: int, maximum: int) -> None:
    assert ResourceLimits(connections=option).max_connections(peers_hi) == maximum
