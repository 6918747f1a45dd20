"""When the sequencer leaves blocks empty [SEQ19]."""

from typing import Any

import pytest

from rollup_node.stages.engine.sequencer.sequencer_attributes import sequencer_attributes
from rollup_node.stages.protocol.types import L2BlockRef
from tests.support.chains.chain_fixture import ChainFixture, chain_with

ALWAYS = ("regolith", "canyon", "delta")


def template(chain: ChainFixture, parent: L2BlockRef, recover: bool = False) -> Any:
    epoch = chain.l1(parent.l1_origin.number)
    config = chain.rollup.genesis.system_config
    return sequencer_attributes(chain.rollup, chain.l1_chain, parent, config, epoch, recover)


def at(chain: ChainFixture, timestamp: int) -> L2BlockRef:
    return L2BlockRef(b"\x07" * 32, 5, b"\x06" * 32, timestamp - 2, chain.rollup.genesis.l1, 4)


def test_open_to_the_pool_unless_told_otherwise(chain: ChainFixture) -> None:
    assert not template(chain, at(chain, 1_010)).no_tx_pool
    assert template(chain, at(chain, 1_010), recover=True).no_tx_pool


@pytest.mark.parametrize(("late", "empty"), [(1_800, False), (1_801, True)])
def test_empty_past_the_drift(chain: ChainFixture, late: int, empty: bool) -> None:
    assert template(chain, at(chain, 1_000 + late)).no_tx_pool is empty


@pytest.mark.parametrize(
    ("fork", "empty"),
    [
        *(("ecotone", True), ("fjord", True), ("granite", False)),
        *(("holocene", False), ("isthmus", True), ("jovian", True)),
    ],
)
def test_empty_in_the_activation_blocks_of_some_forks(fork: str, empty: bool) -> None:
    order = (*ALWAYS, "ecotone", "fjord", "granite", "holocene", "isthmus", "jovian")
    times = {name: 0 for name in order[: order.index(fork)]} | {fork: 1_010}
    chain = chain_with(times)
    for timestamp, expected in ((1_008, False), (1_010, empty), (1_012, False)):
        assert template(chain, at(chain, timestamp)).no_tx_pool is expected
