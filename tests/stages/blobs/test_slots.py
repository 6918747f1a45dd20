"""Slots of Ethereum Mainnet and of made-up chains [BCN7]."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.blobs.slots import BeforeGenesisError, SlotClock


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
