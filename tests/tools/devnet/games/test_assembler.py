"""The assembler of the local L1's contracts."""

import pytest

from rollup_node.tools.devnet.games.assembler import INSTRUCTIONS, assemble
from tests.support.chains.evm_programs import RETURN_TOP, returned_word, run_code


def test_words_become_code() -> None:
    assert assemble("0 1 0x1234 ADD").hex() == "5f600161123401"
    assert assemble(":start @start JUMP").hex() == "5b61000056"
    assert assemble("@end").hex() == "610003"
    assert assemble("@end", size=7).hex() == "610007"


@pytest.mark.parametrize("source", ["NO", "@nowhere", "12x"])
def test_unknown_words_are_refused(source: str) -> None:
    with pytest.raises(ValueError):
        assemble(source)


def test_instructions_have_their_codes() -> None:
    expected = {"CALLDATACOPY": 0x37, "CODECOPY": 0x39, "NUMBER": 0x43, "SHR": 0x1C, "LOG4": 0xA4, "JUMPI": 0x57}
    assert {name: INSTRUCTIONS[name] for name in expected} == expected


def test_a_program_with_a_loop_runs() -> None:
    """The sum of 1 to 10."""
    program = "0 10 :next DUP1 SWAP2 ADD SWAP1 1 SWAP1 SUB DUP1 @next JUMPI POP"
    assert returned_word(run_code(assemble(program).hex() + RETURN_TOP)) == 55
