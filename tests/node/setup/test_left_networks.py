"""Networks that left the OP Stack are built in, and their ends are known."""

from pathlib import Path

import pytest

from rollup_node.node.setup.left_networks import LEFT
from rollup_node.node.setup.networks import find_network
from rollup_node.stages.protocol.config import ForeignFork

OPERATIONS = Path(__file__).resolve().parents[3] / "docs" / "operations.md"


@pytest.mark.parametrize("name", LEFT)
def test_each_is_a_built_in_network_with_an_end_after_its_last_fork(name: str) -> None:
    config, left = find_network(name).config, LEFT[name]
    assert config.foreign_fork == ForeignFork(left.fork, left.time)
    assert left.time > max(config.fork_times.values())


@pytest.mark.parametrize(("name", "last"), [("base-mainnet", 46_600_926), ("base-sepolia", 40_469_855)])
def test_the_last_blocks_of_base(name: str, last: int) -> None:
    """The block after it has the time of Azul, or is the first one later [LFT2]."""
    config = find_network(name).config
    assert config.last_block == last
    assert config.foreign_fork is not None
    after = config.genesis.l2_time + config.block_time * (last + 1)
    assert f"`{name}` up to block {last}" in OPERATIONS.read_text()
    assert 0 <= after - config.foreign_fork.time < config.block_time
