"""Slots of Ethereum Mainnet and of made-up chains [BCN7]."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.blobs.slots import BeforeGenesisError, SlotClock, choose_clock


def test_a_real_slot() -> None:
    assert SlotClock(1_606_824_023, 12_000).slot_at(1_710_338_135) == 8_626_176


@given(genesis=st.integers(0, 1 << 40), slot=st.integers(0, 1 << 30), duration=st.integers(500, 20_000))
def test_every_second_of_a_slot_is_in_it(genesis: int, slot: int, duration: int) -> None:
    clock = SlotClock(genesis, duration)
    first_second = genesis + -(-slot * duration // 1000)
    if (first_second - genesis) * 1000 < (slot + 1) * duration:
        assert clock.slot_at(first_second) == slot


def test_before_genesis_there_are_no_slots() -> None:
    clock = SlotClock(1000, 12_000)
    assert clock.slot_at(1000) == 0
    with pytest.raises(BeforeGenesisError, match="belongs to another chain"):
        clock.slot_at(999)


def test_every_l1_block_is_at_the_start_of_a_slot() -> None:
    clock = SlotClock(1_606_824_023, 12_000)
    assert clock.starts_slot(1_710_338_135)
    assert not clock.starts_slot(1_710_338_136)
    assert not clock.starts_slot(1_606_824_023 - 12)


@pytest.mark.parametrize(
    ("genesis", "slots", "expected"),
    [
        ([1000], [12_000], (1000, 12_000)),
        ([1001, 1000], [12_000], (1000, 12_000)),
        ([1001, 1001, 1000], [12_000], (1000, 12_000)),
        ([1000], [9_000, 12_000], (1000, 12_000)),
        ([1012, 1000, 1000], [12_000], (1000, 12_000)),
        ([1012, 1000], [12_000], (1012, 12_000)),
        ([1001, 1002, 1002], [12_000], (1002, 12_000)),
        ([5000, 1001], [12_000], (5000, 12_000)),
    ],
)
def test_of_several_clocks_the_one_that_fits_l1_and_most_sources(
    genesis: list[int], slots: list[int], expected: tuple[int, int]
) -> None:
    """[BCN16]"""
    assert choose_clock(genesis, slots, 1000 + 7 * 12) == SlotClock(*expected)
