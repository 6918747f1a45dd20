"""A simulated network."""

import pytest

from tests.support.p2p.discv5_nodes import Discv5Simulation


@pytest.fixture
def network() -> Discv5Simulation:
    return Discv5Simulation()
