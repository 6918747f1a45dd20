"""Shifts by a whole word, and SSTORE's stipend; all other instructions of these are compared in
test_eels_differential."""

import pytest

from tests.support.chains.evm_programs import MAX_WORD, result_of, run_code


@pytest.mark.parametrize(("bits", "results"), [("00ff", (1 << 255, 1, MAX_WORD)), ("0100", (0, 0, MAX_WORD))])
def test_shifts_of_the_whole_word(bits: str, results: tuple[int, int, int]) -> None:
    for opcode, value, result in zip(("1b", "1c", "1d"), (1, MAX_WORD, MAX_WORD), results, strict=True):
        assert result_of(f"7f{value:064x}61{bits}{opcode}") == result, opcode


def test_sstore_needs_more_gas_than_the_stipend() -> None:
    assert "call stipend" in run_code("60015f55", gas=2305).error
    assert run_code("60015f55", gas=2306).error == "out of gas"
