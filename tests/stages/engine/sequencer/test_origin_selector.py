"""The L1 origin of the next sequenced block [SEQ14 to SEQ18]."""

import pytest

from rollup_node.stages.engine.sequencer.origin_selector import (
    MAX_BLOCKS,
    InconsistentOriginError,
    L1Window,
    NoOrigin,
    OriginSelector,
    SelectedOrigin,
)
from rollup_node.stages.protocol.types import L2BlockRef
from tests.support.chains.chain_fixture import ChainFixture


def window(chain: ChainFixture, head: int, *numbers: int) -> L1Window:
    found = L1Window()
    found.note_head(chain.l1_ref(head))
    for number in numbers:
        found.note_block(chain.l1(number))
    return found


def tip(chain: ChainFixture, origin: int, timestamp: int) -> L2BlockRef:
    return L2BlockRef(b"\x07" * 32, 50, b"\x06" * 32, timestamp, chain.l1_ref(origin).id, 3)


def selector(chain: ChainFixture, confirmations: int = 0, recover: bool = False) -> OriginSelector:
    return OriginSelector(chain.rollup, confirmations, recover)


T = 1_000 + 12 * 5
"""The time of L1 block 105."""


def test_takes_the_next_origin_as_soon_as_its_time_is_reached(chain: ChainFixture) -> None:
    l1 = window(chain, 106, 104, 105)
    assert selector(chain).select(tip(chain, 104, T - 2), l1) == SelectedOrigin(chain.l1(105))
    assert selector(chain).select(tip(chain, 104, T - 3), l1) == SelectedOrigin(chain.l1(104))


@pytest.mark.option("sequencer.l1-confs", by="confirmations")
def test_confirmations_hide_the_newest_blocks(chain: ChainFixture) -> None:
    for head, expected in ((108, 104), (109, 105)):
        l1 = window(chain, head, 104, 105)
        assert selector(chain, 4).select(tip(chain, 104, T), l1) == SelectedOrigin(chain.l1(expected))


def test_stays_on_the_origin_until_the_drift_is_used_up(chain: ChainFixture) -> None:
    l1 = window(chain, 104, 104)
    origin_time = T - 12
    assert selector(chain).select(tip(chain, 104, origin_time + 1_798), l1) == SelectedOrigin(chain.l1(104))
    late = selector(chain).select(tip(chain, 104, origin_time + 1_799), l1)
    assert isinstance(late, NoOrigin) and "more than the drift of 1800 s" in late.reason


@pytest.mark.fault("F55")
def test_past_the_drift_a_known_next_block_is_waited_for_in_empty_blocks(chain: ChainFixture) -> None:
    found = selector(chain).select(tip(chain, 104, T + 1_799), window(chain, 200, 104, 105))
    assert found == SelectedOrigin(chain.l1(105))


def test_an_origin_that_is_not_canonical_resets(chain: ChainFixture) -> None:
    head = tip(chain, 104, T)
    chain.reorg("b", 104)
    with pytest.raises(InconsistentOriginError, match="has L1 origin"):
        selector(chain).select(head, window(chain, 106, 104, 105))


def test_a_next_block_on_another_branch_resets(chain: ChainFixture) -> None:
    head = tip(chain, 104, T)
    l1 = window(chain, 106, 104)
    chain.reorg("b", 104)
    l1.blocks[105] = chain.l1(105)
    with pytest.raises(InconsistentOriginError, match="does not follow"):
        selector(chain).select(head, l1)


@pytest.mark.option("sequencer.recover", by="recover")
def test_recover_mode_wants_the_next_block_to_be_known(chain: ChainFixture) -> None:
    recover = selector(chain, recover=True)
    assert isinstance(recover.select(tip(chain, 104, T), window(chain, 106, 104)), NoOrigin)
    assert recover.select(tip(chain, 104, T), window(chain, 106, 104, 105)) == SelectedOrigin(chain.l1(105))
    assert recover.select(tip(chain, 104, T), window(chain, 104, 104)) == SelectedOrigin(chain.l1(104))


def test_nothing_is_built_on_an_unknown_origin(chain: ChainFixture) -> None:
    assert isinstance(selector(chain).select(tip(chain, 104, T), L1Window()), NoOrigin)


def test_what_is_wanted_of_l1(chain: ChainFixture) -> None:
    head = tip(chain, 104, T)
    assert selector(chain).wanted(head, window(chain, 106)) == (104, 2)
    assert selector(chain).wanted(head, window(chain, 106, 104)) == (105, 1)
    assert selector(chain).wanted(head, window(chain, 106, 104, 105))[1] == 0
    assert selector(chain, 4).wanted(head, window(chain, 106)) == (104, 1)
    assert selector(chain).wanted(head, L1Window()) == (104, 1)


def test_a_head_that_does_not_follow_empties_the_window(chain: ChainFixture) -> None:
    l1 = window(chain, 106, 104, 105)
    assert not l1.note_head(chain.l1_ref(106))
    assert l1.note_head(chain.l1_ref(107)) and l1.get(105) is not None
    chain.reorg("b", 106)
    assert l1.note_head(chain.l1_ref(108))
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
    head = L2BlockRef(b"\x07" * 32, 50, b"\x06" * 32, T, chain.l1_ref(104).id, 3)
    for _ in range(3):
        first, count = selector(chain).wanted(head, l1)
        for number in range(first, first + count):
            l1.note_block(chain.l1(number))
    assert selector(chain).wanted(head, l1)[1] == 0
    assert selector(chain).select(head, l1) == SelectedOrigin(chain.l1(105))


def test_the_window_forgets_its_blocks_but_not_the_head(chain: ChainFixture) -> None:
    l1 = window(chain, 106, 104, 105)
    l1.clear()
    assert not l1.blocks and l1.head == chain.l1_ref(106)


def test_the_window_is_bounded(chain: ChainFixture) -> None:
    l1 = window(chain, 500, *range(100, 300))
    assert sorted(l1.blocks) == list(range(300 - MAX_BLOCKS, 300))
