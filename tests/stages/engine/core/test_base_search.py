"""The walk to the base against a plain walk over every parent (derivation-rules RS1)."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollup_node.stages.engine.core.base_search import Base, BaseSearch, NeedBlock
from rollup_node.stages.protocol.errors import ResetError
from rollup_node.stages.protocol.types import L2BlockRef


def plain_walk(world: Any, refs: list[L2BlockRef], safe: L2BlockRef) -> Base:
    """RS1 word by word."""
    at = safe
    genesis = world.rollup.genesis
    while (
        at.number > genesis.l2.number
        and at.l1_origin.number > genesis.l1.number
        and at.l1_origin.number
        + world.rollup.schedule().l1(world.l1_ref(at.l1_origin.number).timestamp).channel_timeout
        > safe.l1_origin.number
    ):
        at = refs[at.number - 1]
    return Base(at.l1_origin, world.known[at.hash].config)


def search(world: Any, refs: list[L2BlockRef], safe: L2BlockRef) -> tuple[Base, int]:
    machine, asked = BaseSearch(world.rollup, world.known[safe.hash]), 0
    while isinstance(need := machine.next(), NeedBlock):
        asked += 1
        machine.give(need.number, world.known[refs[need.number].hash])
    return need, asked


@settings(max_examples=40)
@given(safe=st.integers(0, 150), per_epoch=st.integers(1, 8))
def test_the_base_is_that_of_the_rule(safe: int, per_epoch: int, lasting_world: Any) -> None:
    refs = lasting_world.chain(safe, per_epoch)
    found, asked = search(lasting_world, refs, refs[safe])
    assert found == plain_walk(lasting_world, refs, refs[safe])
    assert asked <= 50


def test_around_a_change_of_the_timeout(make_world: Any) -> None:
    """The time of the walked-to origin decides which timeout counts (RS2)."""
    early = ("regolith", "canyon", "delta", "ecotone", "fjord")
    for change in range(0, 130, 7):
        world = make_world({**dict.fromkeys(early, 0), "granite": 1_000 + 4 * change}, l1_step=4, channel_timeout=100)
        refs = world.chain(240, 2)
        assert search(world, refs, refs[240])[0] == plain_walk(world, refs, refs[240])


def test_a_missing_or_foreign_block_resets(world: Any) -> None:
    refs = world.chain(40)
    machine = BaseSearch(world.rollup, world.known[refs[40].hash])
    need = machine.next()
    assert isinstance(need, NeedBlock)
    machine.give(need.number + 1, None)
    assert machine.next() == need, "an answer to another question is ignored"
    with pytest.raises(ResetError, match="has no block"):
        machine.give(need.number, None)
    with pytest.raises(ResetError, match="does not fit"):
        machine.give(need.number, world.known[refs[39].hash])
