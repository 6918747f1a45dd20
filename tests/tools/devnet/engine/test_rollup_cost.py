"""L1 data fee and operator fee by hand-computed values, and the FastLZ length of known data."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.protocol.types import L1_BLOCK
from rollup_node.tools.devnet.engine import rollup_cost
from rollup_node.tools.devnet.engine.rollup_cost import FeeParameters, estimated_size_scaled, fastlz_length
from rollup_node.tools.devnet.evm.state import State, StateDatabase

RAW = b"\x00" * 10 + b"\x01" * 20


def parameters(**slots: int) -> FeeParameters:
    state = State(StateDatabase())
    for name, value in slots.items():
        state.set_storage(L1_BLOCK, int(name.removeprefix("slot")), value)
    return FeeParameters(state)


def test_l1_cost_by_fork() -> None:
    old = parameters(slot1=1000, slot5=188, slot6=684_000)
    gas = 4 * 10 + 16 * 20
    assert rollup_cost.l1_cost_bedrock(old, RAW) == (gas + 68 * 16 + 188) * 1000 * 684_000 // 10**6
    assert rollup_cost.l1_cost_regolith(old, RAW) == (gas + 188) * 1000 * 684_000 // 10**6
    for cost in (rollup_cost.l1_cost_ecotone, rollup_cost.l1_cost_fjord):
        assert cost(old, RAW) == rollup_cost.l1_cost_regolith(old, RAW)
    new = parameters(slot1=1000, slot3=2 << 96 | 3 << 64 | 77, slot7=50)
    price = 16 * 2 * 1000 + 3 * 50
    assert rollup_cost.l1_cost_ecotone(new, RAW) == gas * price // 16_000_000
    assert rollup_cost.l1_cost_fjord(new, RAW) == 100 * price // 10**6


def test_operator_cost_by_fork() -> None:
    operator = parameters(slot8=400 << 96 | 7_000 << 64 | 9)
    assert rollup_cost.operator_cost_isthmus(operator, 21_000) == 21_000 * 7000 // 10**6 + 9
    assert rollup_cost.operator_cost_jovian(operator, 21_000) == 21_000 * 7000 * 100 + 9


@pytest.mark.parametrize(
    ("data", "length"),
    [(b"", 0), (b"a", 2), (bytes(1000), 21), (b"\x01" * 1000, 21), (bytes(range(256)), 264), (b"abc" * 40, 13)],
)
def test_known_lengths(data: bytes, length: int) -> None:
    assert fastlz_length(data) == length


@given(st.lists(st.sampled_from([b"\0", b"\0\0\0\0", b"abcdef", b"xyz", b"\x07"]), max_size=300))
def test_length_is_bounded_by_literals(parts: list[bytes]) -> None:
    data = b"".join(parts)
    length = fastlz_length(data)
    assert 0 <= length <= len(data) + -(-len(data) // 32)
    assert fastlz_length(data + data) <= 2 * length + 8
    assert estimated_size_scaled(data) >= 100_000_000
