"""What the sequencer builds from: origins, the system config of the tip, attributes; and what it lacks."""

from typing import Any

import pytest

from rollup_node.stages.engine.calls.engine_api import (
    ErrorAnswer,
    ForkchoiceAnswer,
    ForkchoiceUpdate,
    GetBlock,
)
from rollup_node.stages.engine.calls.heads import Heads
from rollup_node.stages.engine.config import EngineConfig
from rollup_node.stages.engine.sequencer.block_production import BlockProduction, L1BlockRange, sequencer_attributes
from rollup_node.stages.engine.sequencer.origin_selector import InconsistentOriginError
from rollup_node.stages.protocol.errors import ResetError, TemporaryError
from rollup_node.stages.protocol.types import L2BlockRef
from tests.support.chains.chain_fixture import GENESIS_TIME, ChainFixture, chain_with
from tests.support.engine.model_engine import ModelEngine

NOW = float(GENESIS_TIME)
ALWAYS = ("regolith", "canyon", "delta")


def production(chain: ChainFixture, head: L2BlockRef | None = None) -> BlockProduction:
    """A sequencer whose heads are confirmed, without L1 blocks."""
    config = EngineConfig(
        "", b"", 1.0, "geth", chain.rollup, chain.l1_chain, sequencer_enabled=True, sequencer_l1_confs=0
    )
    machine = BlockProduction(config, stopped=False)
    machine.sequencer.on_start(heads(chain, head or chain.genesis), NOW)
    return machine


def heads(chain: ChainFixture, unsafe: L2BlockRef) -> Heads:
    return Heads(unsafe, chain.genesis, chain.genesis, chain.genesis)


def give_l1(machine: BlockProduction, chain: ChainFixture, head: int, *numbers: int) -> None:
    machine.window.note_head(chain.l1_ref(head))
    for number in numbers:
        machine.window.note_block(chain.l1(number))


def test_the_head_s_origin_is_waited_for(chain: ChainFixture) -> None:
    machine = production(chain)
    assert machine.wanted_l1_blocks(heads(chain, chain.genesis)) == L1BlockRange(100, 1)
    assert machine.next(None, NOW) is None
    assert machine.wait_until() is None, "the arrival of the block leads on, not time"
    give_l1(machine, chain, 101, 100, 101)
    assert machine.wanted_l1_blocks(heads(chain, chain.genesis)) is None
    assert machine.next(None, NOW) == GetBlock(chain.genesis.hash)
    assert machine.wait_until() == NOW


def test_a_pending_forkchoice_update_comes_first(chain: ChainFixture) -> None:
    machine = production(chain)
    give_l1(machine, chain, 101, 100, 101)
    due = ForkchoiceUpdate(heads(chain, chain.genesis).forkchoice())
    assert machine.next(due, NOW) == due


def test_the_config_of_the_tip_is_read_once(chain: ChainFixture) -> None:
    machine = production(chain)
    give_l1(machine, chain, 101, 100, 101)
    call = machine.next(None, NOW)
    assert isinstance(call, GetBlock) and call.name == chain.genesis.hash
    assert machine.answer(call, ModelEngine(chain).answer(call), NOW) is None
    call = machine.next(None, NOW)
    assert isinstance(call, ForkchoiceUpdate) and call.attributes is not None
    assert call.attributes.timestamp == GENESIS_TIME + 2
    assert machine.next(None, NOW) == call
    assert machine.answer(call, ForkchoiceAnswer("VALID", b"job"), NOW) is None
    assert machine.wait_until() == NOW + 2 - 0.05


def test_a_tip_that_the_engine_lost_needs_a_new_start(chain: ChainFixture) -> None:
    machine = production(chain)
    call = GetBlock(chain.genesis.hash)
    with pytest.raises(ResetError, match=f"has lost its head 0x{chain.genesis.hash.hex()}"):
        machine.answer(call, None, NOW)
    with pytest.raises(TemporaryError, match="not its head"):
        machine.answer(call, chain.payloads[chain.build(1)[1].hash], NOW)
    with pytest.raises(TemporaryError, match="not its head"):
        machine.answer(call, ErrorAnswer(-32000, "busy"), NOW)


def test_without_an_origin_it_is_tried_again_and_the_reason_shown() -> None:
    """A head past the drift of its origin, while the next L1 block is not visible [SEQ16]."""
    chain = chain_with()
    head = chain.genesis
    for _ in range(901):
        head = chain.ref(chain.seal(head, chain.attributes(head, 100)))
    machine = production(chain, head)
    give_l1(machine, chain, 100, 100)
    now = float(head.timestamp)
    with pytest.raises(TemporaryError, match="more than the drift") as error:
        machine.next(None, now)
    machine.sequencer.retry_later(error.value, now)
    assert machine.sequencer.problem is not None and "more than the drift" in machine.sequencer.problem.text
    assert machine.next(None, now + 0.9) is None and machine.sequencer.problem is not None
    give_l1(machine, chain, 101, 101)
    assert machine.next(None, now + 1) == GetBlock(head.hash)


def test_an_origin_on_another_branch_needs_a_new_start(chain: ChainFixture) -> None:
    machine = production(chain)
    chain.reorg("b", 100)
    give_l1(machine, chain, 101, 100, 101)
    with pytest.raises(InconsistentOriginError):
        machine.next(None, NOW)


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
