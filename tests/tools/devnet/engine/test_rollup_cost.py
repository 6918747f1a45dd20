"""Data fees by hand-computed values, and the FastLZ length on data whose compressed size is known."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.protocol.addresses import L1_BLOCK
from rollup_node.tools.devnet.engine import rollup_cost as data_fees
from rollup_node.tools.devnet.engine.rollup_cost import FeeParameters, fastlz_length, scaled_size
from rollup_node.tools.devnet.evm.state import State, Store

RAW = b"\x00" * 10 + b"\x01" * 20


def parameters(**slots: int) -> FeeParameters:
    state = State(Store())
    for name, value in slots.items():
        state.set_storage(L1_BLOCK, int(name.removeprefix("slot")), value)
    return FeeParameters(state)


def packed(base_fee_scalar: int, blob_scalar: int) -> int:
    return base_fee_scalar << 96 | blob_scalar << 64


def test_costs_by_fork() -> None:
    old = parameters(slot1=1000, slot5=188, slot6=684_000)
    gas = 4 * 10 + 16 * 20
    assert data_fees.bedrock_cost(old, RAW) == (gas + 68 * 16 + 188) * 1000 * 684_000 // 10**6
    assert data_fees.regolith_cost(old, RAW) == (gas + 188) * 1000 * 684_000 // 10**6
    assert data_fees.ecotone_cost(old, RAW) == data_fees.fjord_cost(old, RAW) == data_fees.regolith_cost(old, RAW)
    new = parameters(slot1=1000, slot3=packed(2, 3) | 77, slot7=50)
    price = 16 * 2 * 1000 + 3 * 50
    assert data_fees.ecotone_cost(new, RAW) == gas * price // 16_000_000
    assert data_fees.fjord_cost(new, RAW) == 100 * price // 10**6


def test_operator_fees() -> None:
    given_fee = parameters(slot8=400 << 96 | 7_000 << 64 | 9)
    assert data_fees.isthmus_operator_fee(given_fee, 21_000) == 21_000 * 7000 // 10**6 + 9
    assert data_fees.jovian_operator_fee(given_fee, 21_000) == 21_000 * 7000 * 100 + 9


@pytest.mark.parametrize(
    ("data", "length"),
    [
        (b"", 0),
        (b"a", 2),
        (bytes(1000), 21),
        (b"\x01" * 1000, 21),
        (bytes(range(256)), 264),
        (b"abc" * 40, 13),
    ],
)
def test_known_lengths(data: bytes, length: int) -> None:
    assert fastlz_length(data) == length


@given(st.lists(st.sampled_from([b"\0", b"\0\0\0\0", b"abcdef", b"xyz", b"\x07"]), max_size=300))
def test_length_is_bounded_by_literals(parts: list[bytes]) -> None:
    data = b"".join(parts)
    length = fastlz_length(data)
    assert 0 <= length <= len(data) + -(-len(data) // 32)
    assert fastlz_length(data + data) <= 2 * length + 8
    assert scaled_size(data) >= 100_000_000
