"""Exceptional halts, and opcodes by fork; gas and results are compared in test_eels_differential."""

import pytest

from rollup_node.tools.devnet.evm import forks
from tests.support.chains.evm_programs import run_code


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("01", "stack underflow"),
        ("0c", "invalid opcode 0x0c"),
        ("fe", "invalid opcode 0xfe"),
        ("600356", "invalid jump destination"),
        ("5b" + "5f" + "600056", "stack overflow"),
        ("7f" + "ff" * 32 + "51", "out of gas: memory"),
        ("600160005f3e", "return data out of bounds"),
        ("5b600056", "out of gas"),
    ],
)
def test_an_exceptional_halt_consumes_all_gas(code: str, error: str) -> None:
    frame = run_code(code)
    assert (frame.error, frame.succeeded, frame.gas, frame.output) == (error, False, 0, b"")


def test_opcodes_are_undefined_before_their_fork() -> None:
    for code, before, since in (
        ("5f", forks.PARIS, forks.SHANGHAI),
        ("60005c", forks.SHANGHAI, forks.CANCUN),
        ("60001e", forks.PRAGUE, forks.OSAKA),
        ("4b", forks.BPO2, forks.AMSTERDAM),
    ):
        assert "invalid opcode" in run_code(code, rules=before).error
        assert run_code(code, rules=since).succeeded
