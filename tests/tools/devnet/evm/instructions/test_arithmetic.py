"""Arithmetic, comparison, bitwise and Keccak instructions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.protocol.keccak import keccak256
from tests.support.chains.evm_programs import GAS, MAX_WORD, result_of, run_code

words = st.one_of(st.integers(0, MAX_WORD), st.integers(0, 300), st.integers(MAX_WORD - 300, MAX_WORD))


def signed(word: int) -> int:
    return word - (1 << 256) if word >> 255 else word


def push(word: int) -> str:
    return f"7f{word:064x}"


@pytest.mark.parametrize(
    ("code", "result"),
    [
        ("60036005" + "03", 2),
        ("6000" + "6005" + "04", 0),
        ("5f19" + "5f19" + "05", 1),
        ("6003" + "5f19" + "07", MAX_WORD),
        ("60076005600309", 1),
        ("60076005600308", 1),
        ("61ffff" + "6000" + "0b", MAX_WORD),
        ("60ff" + "601f" + "1a", 255),
        ("5f19" + "60ff" + "1d", MAX_WORD),
        ("6001" + "61ffff" + "1b", 0),
        ("6001" + "1e", 255),
        ("5f" + "1e", 256),
        ("6003" + "6002" + "0a", 8),
        ("5f" + "5f" + "20", int.from_bytes(keccak256(b""), "big")),
    ],
)
def test_results(code: str, result: int) -> None:
    assert result_of(code) == result


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


def test_gas_of_exponent_and_keccak_depends_on_their_size() -> None:
    assert GAS - run_code("61010060020a").gas == 3 + 3 + 10 + 2 * 50
    assert GAS - run_code("60215f20").gas == 3 + 2 + 30 + 2 * 6 + 2 * 3
