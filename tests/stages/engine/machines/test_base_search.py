"""The walk to the base against a plain walk over every parent [RS1]."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollup_node.stages.engine.machines.base_search import Base, BaseSearch, NeedBlock
from rollup_node.stages.protocol.errors import ResetError
from rollup_node.stages.protocol.types import L2BlockRef
from tests.support.chain_fixture import ChainFixture, chain_with


def plain_walk(chain: ChainFixture, refs: list[L2BlockRef], safe: L2BlockRef) -> Base:
    """RS1 word by word."""
    at = safe
    genesis = chain.rollup.genesis
    while (
        at.number > genesis.l2.number
        and at.l1_origin.number > genesis.l1.number
        and at.l1_origin.number
        + chain.rollup.schedule().l1(chain.l1_ref(at.l1_origin.number).timestamp).channel_timeout
        > safe.l1_origin.number
    ):
        at = refs[at.number - 1]
    return Base(at.l1_origin, chain.known[at.hash].config)


def search(chain: ChainFixture, refs: list[L2BlockRef], safe: L2BlockRef) -> tuple[Base, int]:
    machine, steps = BaseSearch(chain.rollup, chain.known[safe.hash]), 0
    while isinstance(need := machine.next(), NeedBlock):
        steps += 1
        machine.add_block(need.number, chain.known[refs[need.number].hash])
    return need, steps


@settings(max_examples=40)
@given(safe=st.integers(0, 150), per_epoch=st.integers(1, 8))
def test_the_base_is_that_of_the_rule(safe: int, per_epoch: int, lasting_chain: ChainFixture) -> None:
    refs = lasting_chain.build(safe, per_epoch)
    found, steps = search(lasting_chain, refs, refs[safe])
    assert found == plain_walk(lasting_chain, refs, refs[safe])
    assert steps <= 50


def test_around_a_change_of_the_timeout() -> None:
    """The time of the walked-to origin decides which timeout counts [RS2]."""
    early = ("regolith", "canyon", "delta", "ecotone", "fjord")
    for change in range(0, 130, 7):
        chain = chain_with({**dict.fromkeys(early, 0), "granite": 1_000 + 4 * change}, l1_step=4, channel_timeout=100)
        refs = chain.build(240, 2)
        assert search(chain, refs, refs[240])[0] == plain_walk(chain, refs, refs[240])


def test_a_missing_or_foreign_block_resets(chain: ChainFixture) -> None:
    refs = chain.build(40)
    machine = BaseSearch(chain.rollup, chain.known[refs[40].hash])
    need = machine.next()
    assert isinstance(need, NeedBlock)
    machine.add_block(need.number + 1, None)
    assert machine.next() == need, "an answer to another question is ignored"
    with pytest.raises(ResetError, match="has no block"):
        machine.add_block(need.number, None)
    with pytest.raises(ResetError, match="does not fit"):
        machine.add_block(need.number, chain.known[refs[39].hash])
