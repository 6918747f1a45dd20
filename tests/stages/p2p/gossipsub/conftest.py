"""A router whose peers are scripted by the test."""

import pytest

from tests.support.p2p.gossip_routers import RouterHarness


@pytest.fixture
def harness() -> RouterHarness:
    return RouterHarness()
