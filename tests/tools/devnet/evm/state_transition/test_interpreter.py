"""The interpreter: exact gas, exceptional halts, opcodes by fork, precompiles."""

import pytest

from rollup_node.tools.devnet.evm.state_transition import forks
from tests.support.chains.evm_programs import GAS, result_of, run_code


def test_gas_is_exact() -> None:
    assert GAS - run_code("6001600201" + "50" + "00").gas == 3 + 3 + 3 + 2
    frame = run_code("60016000" + "55" + "60016000" + "55" + "5f6000" + "55")
    assert GAS - frame.gas == 4 * 3 + 22_100 + 100 + 2 + 3 + 100
    assert frame.state.refund == 19_900
    cold_then_warm = run_code("6000" + "54" + "6000" + "54")
    assert GAS - cold_then_warm.gas == 3 + 2100 + 3 + 100


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
    ],
)
def test_an_exceptional_halt_consumes_all_gas(code: str, error: str) -> None:
    frame = run_code(code)
    assert (frame.error, frame.succeeded, frame.gas, frame.output) == (error, False, 0, b"")


def test_a_successful_frame_has_no_error() -> None:
    frame = run_code("60016000f3" + "00")
    assert (frame.error, frame.succeeded) == ("", True)


def test_an_endless_loop_runs_out_of_gas() -> None:
    assert run_code("5b600056", gas=10_000).error == "out of gas"


def test_opcodes_are_undefined_before_their_fork() -> None:
    for code, before, since in (
        ("5f", forks.PARIS, forks.SHANGHAI),
        ("60005c", forks.SHANGHAI, forks.CANCUN),
        ("60001e", forks.PRAGUE, forks.OSAKA),
        ("4b", forks.BPO2, forks.AMSTERDAM),
    ):
        assert "invalid opcode" in run_code(code, rules=before).error
        assert run_code(code, rules=since).succeeded


def test_precompiles_charge_exact_gas() -> None:
    code = "5f5f5f5f" + "6002" + "61ffff" + "fa" + "00"
    assert GAS - run_code(code).gas == 4 * 2 + 3 + 3 + 2600 + 60
    too_little = "5f5f5f5f" + "6002" + "603b" + "fa"
    assert result_of(too_little) == 0
