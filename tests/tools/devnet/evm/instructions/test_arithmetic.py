"""Instructions of two words; those of one and three, Keccak and all gas are compared in test_eels_differential."""

from hypothesis import given
from hypothesis import strategies as st

from tests.support.chains.evm_programs import MAX_WORD, result_of

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
