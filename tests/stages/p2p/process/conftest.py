"""A chain that began ten minutes ago."""

import pytest

from rollup_node.stages.protocol.config import RollupConfig
from tests.support.p2p.nodes import chain_of_now


@pytest.fixture
def rollup() -> RollupConfig:
    return chain_of_now()
