"""Networks that left the OP Stack are built in, and their ends are known."""

from dataclasses import replace
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


@pytest.mark.parametrize(("name", "last"), [("base-mainnet", 53_556_126), ("base-sepolia", 48_418_655)])
def test_the_last_blocks_of_base(name: str, last: int) -> None:
    """The block after it has the time of Denim, or is the first one later [LFT2]."""
    config = find_network(name).config
    assert config.last_block == last
    assert config.foreign_fork is not None
    after = config.genesis.l2_time + config.block_time * (last + 1)
    assert f"`{name}` up to block {last}" in OPERATIONS.read_text()
    assert 0 <= after - config.foreign_fork.time < config.block_time


@pytest.mark.parametrize(("name", "first"), [("base-mainnet", 46_600_927), ("base-sepolia", 40_469_856)])
def test_azul_changes_one_method_of_the_engine_and_no_rule_of_derivation(name: str, first: int) -> None:
    """[LFT10]"""
    config = find_network(name).config
    schedule = config.schedule()
    time = config.genesis.l2_time + config.block_time * first
    before, after = (schedule.l2(at) for at in (time - config.block_time, time))
    assert (before.get_payload_version, after.get_payload_version) == (4, 5)
    assert after == replace(before, get_payload_version=5)
    assert schedule.activations(time) == ()
    assert (schedule.l1(time), schedule.epoch(time)) == (schedule.l1(time - 2), schedule.epoch(time - 2))
    assert schedule.l1_info_format(time) == schedule.l1_info_format(time - 2)
    assert not schedule.switches_stages(time - 2, time)
