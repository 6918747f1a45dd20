"""When the sequencer leaves blocks empty (node-behaviour 12.3)."""

from typing import Any

import pytest

from rollup_node.stages.engine.core.sequencer_attributes import sequencer_attributes
from rollup_node.stages.protocol.types import L2BlockRef

ALWAYS = ("regolith", "canyon", "delta")


def template(world: Any, parent: L2BlockRef, recover: bool = False) -> Any:
    epoch = world.l1(parent.l1_origin.number)
    config = world.rollup.genesis.system_config
    return sequencer_attributes(world.rollup, world.l1_chain, parent, config, epoch, recover)


def at(world: Any, timestamp: int) -> L2BlockRef:
    return L2BlockRef(b"\x07" * 32, 5, b"\x06" * 32, timestamp - 2, world.rollup.genesis.l1, 4)


def test_open_to_the_pool_unless_told_otherwise(world: Any) -> None:
    assert not template(world, at(world, 1_010)).no_tx_pool
    assert template(world, at(world, 1_010), recover=True).no_tx_pool


@pytest.mark.parametrize(("late", "empty"), [(1_800, False), (1_801, True)])
def test_empty_past_the_drift(world: Any, late: int, empty: bool) -> None:
    assert template(world, at(world, 1_000 + late)).no_tx_pool is empty


@pytest.mark.parametrize(
    ("fork", "empty"),
    [
        *(("ecotone", True), ("fjord", True), ("granite", False)),
        *(("holocene", False), ("isthmus", True), ("jovian", True)),
    ],
)
def test_empty_in_the_activation_blocks_of_some_forks(make_world: Any, fork: str, empty: bool) -> None:
    order = (*ALWAYS, "ecotone", "fjord", "granite", "holocene", "isthmus", "jovian")
    times = {name: 0 for name in order[: order.index(fork)]} | {fork: 1_010}
    world = make_world(times)
    for timestamp, expected in ((1_008, False), (1_010, empty), (1_012, False)):
        assert template(world, at(world, timestamp)).no_tx_pool is expected
