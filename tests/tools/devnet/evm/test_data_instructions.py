"""Arithmetic of two words, and SSTORE; all other instructions of these are compared in test_eels_differential."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.tools.devnet.evm.state import State, StateDatabase
from tests.support.chains.evm_programs import CONTRACT, GAS, MAX_WORD, result_of, run_code

words = st.one_of(st.integers(0, MAX_WORD), st.integers(0, 300), st.integers(MAX_WORD - 300, MAX_WORD))


def signed(word: int) -> int:
    return word - (1 << 256) if word >> 255 else word


def push(word: int) -> str:
    return f"7f{word:064x}"


@given(words, words)
def test_instructions_of_two_words_agree_with_integers(left: int, right: int) -> None:
    expected = {
        "01": left + right,
        "02": left * right,
        "03": left - right,
        "04": left // right if right else 0,
        "06": left % right if right else 0,
        "10": left < right,
        "11": left > right,
        "12": signed(left) < signed(right),
        "13": signed(left) > signed(right),
        "14": left == right,
        "16": left & right,
        "17": left | right,
        "18": left ^ right,
        "1b": right << left if left < 256 else 0,
        "1c": right >> left if left < 256 else 0,
        "1d": signed(right) >> min(left, 255),
    }
    for opcode, value in expected.items():
        assert result_of(push(right) + push(left) + opcode) == value & MAX_WORD, opcode


@given(words, words)
def test_signed_division_rounds_towards_zero(left: int, right: int) -> None:
    quotient = abs(signed(left)) // abs(signed(right)) if right else 0
    quotient = quotient if (signed(left) < 0) == (signed(right) < 0) else -quotient
    remainder = abs(signed(left)) % abs(signed(right)) if right else 0
    assert result_of(push(right) + push(left) + "05") == quotient & MAX_WORD
    assert result_of(push(right) + push(left) + "07") == (-remainder if signed(left) < 0 else remainder) & MAX_WORD


SSTORE_0 = "5f55"


@pytest.mark.parametrize(
    ("original", "values", "gas", "refund"),
    [
        (0, [1], 22_100, 0),
        (0, [0], 2_200, 0),
        (1, [2], 5_000, 0),
        (1, [0], 5_000, 4_800),
        (1, [0, 1], 5_100, 2_800),
        (1, [0, 2], 5_100, 0),
        (0, [1, 0], 22_200, 19_900),
        (1, [2, 1], 5_100, 2_800),
        (1, [1], 2_200, 0),
    ],
)
def test_sstore_gas_and_refund(original: int, values: list[int], gas: int, refund: int) -> None:
    state = State(StateDatabase())
    state.set_nonce(CONTRACT, 1)
    state.set_storage(CONTRACT, 0, original)
    state.commit()
    frame = run_code("".join(f"60{value:02x}" + SSTORE_0 for value in values), state=state)
    assert GAS - frame.gas - len(values) * 5 == gas
    assert frame.state.refund == refund
    assert frame.state.storage(CONTRACT, 0) == values[-1]


def test_sstore_needs_more_gas_than_the_stipend() -> None:
    assert "call stipend" in run_code("6001" + SSTORE_0, gas=2305).error
    assert run_code("6001" + SSTORE_0, gas=2306).error == "out of gas"
