"""What the sequencer builds from: origins, the system config of the tip, attributes; and what it lacks."""

from contextlib import nullcontext
from typing import Any

import pytest

from rollup_node.stages.engine.calls import engine_api as api
from rollup_node.stages.engine.calls.actions import RequestL1Blocks
from rollup_node.stages.engine.calls.heads import Heads
from rollup_node.stages.engine.sequencer.block_production import (
    MAX_BLOCKS,
    ORIGIN_SECONDS,
    BlockProduction,
    InconsistentOriginError,
    L1Window,
    sequencer_attributes,
)
from rollup_node.stages.protocol.errors import ResetError, TemporaryError
from rollup_node.stages.protocol.types import L2BlockRef
from tests.support.chains.chain_fixture import GENESIS_TIME, ChainFixture, chain_with
from tests.support.engine.core_harness import config_of

NOW = float(GENESIS_TIME)


def production(chain: ChainFixture, head: L2BlockRef | None = None) -> BlockProduction:
    """Return a sequencer whose heads are confirmed, without L1 blocks."""
    machine = BlockProduction(config_of(chain, sequencer_enabled=True, sequencer_l1_confs=0))
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
    assert machine.wanted_l1_blocks(heads(chain, chain.genesis)) == RequestL1Blocks(100, 1)
    assert machine.next(None, NOW) is None
    assert machine.wait_until() == NOW + ORIGIN_SECONDS, "the arrival of the block leads on, not time"
    give_l1(machine, chain, 101, 100, 101)
    assert machine.wanted_l1_blocks(heads(chain, chain.genesis)) is None
    assert machine.next(None, NOW) == api.GetBlock(chain.genesis.hash)
    assert machine.wait_until() == NOW


def test_a_pending_forkchoice_update_comes_first(chain: ChainFixture) -> None:
    machine = production(chain)
    give_l1(machine, chain, 101, 100, 101)
    due = api.ForkchoiceUpdate(heads(chain, chain.genesis).forkchoice())
    assert machine.next(due, NOW) == due


def test_a_tip_that_the_engine_lost_needs_a_new_start(chain: ChainFixture) -> None:
    machine = production(chain)
    call = api.GetBlock(chain.genesis.hash)
    with pytest.raises(ResetError, match=f"has lost its head 0x{chain.genesis.hash.hex()}"):
        machine.answer(call, None, NOW)
    with pytest.raises(TemporaryError, match="not its head"):
        machine.answer(call, chain.payloads[chain.build(1)[1].hash], NOW)
    with pytest.raises(TemporaryError, match="not its head"):
        machine.answer(call, api.ErrorAnswer(-32000, "busy"), NOW)


def test_without_an_origin_it_is_tried_again_and_the_reason_shown() -> None:
    """A head past the drift of its origin, while the next L1 block is not visible [SEQ16]."""
    chain = chain_with()
    head = chain.extend(chain.genesis, 901, ())[-1]
    machine = production(chain, head)
    give_l1(machine, chain, 100, 100)
    now = float(head.timestamp)
    with pytest.raises(TemporaryError, match="more than the drift") as error:
        machine.next(None, now)
    machine.sequencer.retry_later(error.value, now)
    assert machine.sequencer.problem is not None and "more than the drift" in machine.sequencer.problem.text
    assert machine.next(None, now + 0.9) is None and machine.sequencer.problem is not None
    give_l1(machine, chain, 101, 101)
    assert machine.next(None, now + 1) == api.GetBlock(head.hash)


def template(chain: ChainFixture, parent: L2BlockRef, recover: bool = False) -> Any:
    epoch = chain.l1(parent.l1_origin.number)
    config = chain.rollup.genesis.system_config
    return sequencer_attributes(chain.rollup, chain.l1_chain, parent, config, epoch, recover)


def at(chain: ChainFixture, timestamp: int) -> L2BlockRef:
    return L2BlockRef(b"\x07" * 32, 5, b"\x06" * 32, timestamp - 2, chain.rollup.genesis.l1, 4)


@pytest.mark.parametrize(
    ("late", "recover", "empty"), [(10, False, False), (10, True, True), (1_800, False, False), (1_801, False, True)]
)
def test_empty_past_the_drift_and_in_recover_mode(chain: ChainFixture, late: int, recover: bool, empty: bool) -> None:
    assert template(chain, at(chain, 1_000 + late), recover).no_tx_pool is empty


def window(chain: ChainFixture, head: int, *numbers: int) -> L1Window:
    l1_window = L1Window()
    l1_window.note_head(chain.l1_ref(head))
    for number in numbers:
        l1_window.note_block(chain.l1(number))
    return l1_window


def tip(chain: ChainFixture, origin: int, timestamp: int) -> L2BlockRef:
    return L2BlockRef(b"\x07" * 32, 50, b"\x06" * 32, timestamp, chain.l1_ref(origin).id, 3)


def selector(chain: ChainFixture, l1: L1Window, **options: Any) -> BlockProduction:
    """Return a production that selects from these L1 blocks."""
    result = BlockProduction(config_of(chain, **{"sequencer_l1_confs": 0, **options}))
    result.window = l1
    return result


T = 1_000 + 12 * 5
"""The time of L1 block 105."""


BEGIN = T - 12
"""The time of L1 block 104, the origin of the tip."""
PAST_DRIFT = "more than the drift of 1800 s"


@pytest.mark.option("sequencer.l1-confs")
@pytest.mark.option("sequencer.recover")
@pytest.mark.fault("F55")
@pytest.mark.parametrize(
    ("options", "time", "head", "fetched", "expected"),
    [
        ({}, T - 2, 106, (104, 105), 105),
        ({}, T - 3, 106, (104, 105), 104),
        ({"sequencer_l1_confs": 4}, T, 108, (104, 105), 104),
        ({"sequencer_l1_confs": 4}, T, 109, (104, 105), 105),
        ({}, BEGIN + 1_798, 104, (104,), 104),
        ({}, BEGIN + 1_799, 104, (104,), PAST_DRIFT),
        ({}, T + 1_799, 200, (104, 105), 105),
        ({"sequencer_recover": True}, T, 106, (104,), "recover mode"),
        ({"sequencer_recover": True}, T, 106, (104, 105), 105),
        ({"sequencer_recover": True}, T, 104, (104,), 104),
        ({}, T, 106, (), "is not fetched yet"),
    ],
)
def test_the_origin_of_the_next_block(
    chain: ChainFixture, options: dict[str, Any], time: int, head: int, fetched: tuple[int, ...], expected: int | str
) -> None:
    """The next origin as soon as its time is reached and it has its confirmations; past the drift a next block that
    is known is waited for in empty blocks."""
    with pytest.raises(TemporaryError, match=expected) if isinstance(expected, str) else nullcontext():
        origin = selector(chain, window(chain, head, *fetched), **options).select_origin(tip(chain, 104, time))
        assert origin.header.number == expected


def test_an_origin_that_is_not_canonical_resets(chain: ChainFixture) -> None:
    head = tip(chain, 104, T)
    chain.reorg("b", 104)
    with pytest.raises(InconsistentOriginError, match="has L1 origin"):
        selector(chain, window(chain, 106, 104, 105)).select_origin(head)


def test_a_next_block_on_another_branch_resets(chain: ChainFixture) -> None:
    head = tip(chain, 104, T)
    l1 = window(chain, 106, 104)
    chain.reorg("b", 104)
    l1.blocks[105] = chain.l1(105)
    with pytest.raises(InconsistentOriginError, match="does not follow"):
        selector(chain, l1).select_origin(head)


@pytest.mark.parametrize(
    ("fetched", "options", "wanted"),
    [
        ((), {}, RequestL1Blocks(104, 2)),
        ((104,), {}, RequestL1Blocks(105, 1)),
        ((104, 105), {}, None),
        ((), {"sequencer_l1_confs": 4}, RequestL1Blocks(104, 1)),
    ],
)
def test_what_is_wanted_of_l1(
    chain: ChainFixture, fetched: tuple[int, ...], options: dict[str, Any], wanted: RequestL1Blocks | None
) -> None:
    on_tip = heads(chain, tip(chain, 104, T))
    assert selector(chain, window(chain, 106, *fetched), **options).wanted_l1_blocks(on_tip) == wanted
    assert selector(chain, L1Window()).wanted_l1_blocks(on_tip) == RequestL1Blocks(104, 1)


def test_a_head_that_does_not_follow_empties_the_window(chain: ChainFixture) -> None:
    l1 = window(chain, 106, 104, 105)
    for number in (106, 107):
        l1.note_head(chain.l1_ref(number))
        assert l1.get(105) is not None
    chain.reorg("b", 106)
    l1.note_head(chain.l1_ref(108))
    assert l1.get(105) is None


def test_a_block_that_does_not_carry_the_next_ends_it(chain: ChainFixture) -> None:
    l1 = window(chain, 106, 104, 105, 106)
    chain.reorg("b", 104)
    l1.note_block(chain.l1(104))
    assert l1.get(104) == chain.l1(104) and l1.get(105) is None and l1.get(106) is None


def test_a_block_of_before_a_reorg_that_comes_late_does_not_stay(chain: ChainFixture) -> None:
    """It was on its way when the new head arrived; nothing else would ever remove it."""
    stale = chain.l1(105)
    l1 = window(chain, 106, 104)
    chain.reorg("b", 104)
    l1.note_head(chain.l1_ref(107))
    l1.note_block(chain.l1(104))
    l1.note_block(stale)
    head = tip(chain, 104, T)
    while (wanted := selector(chain, l1).wanted_l1_blocks(heads(chain, head))) is not None:
        for number in range(wanted.first, wanted.first + wanted.count):
            l1.note_block(chain.l1(number))
    assert selector(chain, l1).select_origin(head) == chain.l1(105)


def test_a_head_that_goes_back_below_the_window_gets_its_origin(chain: ChainFixture) -> None:
    """As where derivation replaces more L1 blocks' worth of the chain than the window has."""
    l1 = window(chain, 500, *range(300, 300 + MAX_BLOCKS))
    head = tip(chain, 104, T)
    machine = selector(chain, l1)
    for _ in range(2):
        wanted = machine.wanted_l1_blocks(heads(chain, head)) or RequestL1Blocks(0, 0)
        for number in range(wanted.first, wanted.first + wanted.count):
            l1.note_block(chain.l1(number))
    assert machine.wanted_l1_blocks(heads(chain, head)) is None
    assert machine.select_origin(head) == chain.l1(105)
    assert len(l1.blocks) == MAX_BLOCKS
