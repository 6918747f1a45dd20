"""Jumps, the program counter, gas, and the ends of a call."""

import pytest

from rollup_node.tools.devnet.evm.state import State, StateDatabase
from tests.support.chains.evm_programs import CONTRACT, GAS, result_of, returned_word, run_code


@pytest.mark.parametrize(
    ("code", "result"),
    [
        ("58", 0),
        ("5f58", 1),
        ("6004" + "56" + "fe" + "5b6007", 7),
        ("6001" + "6006" + "57" + "fe" + "5b6007", 7),
        ("6005" + "5f" + "6008" + "57" + "00", 5),
    ],
)
def test_results(code: str, result: int) -> None:
    if code.endswith("00"):
        assert run_code(code).succeeded
    else:
        assert result_of(code) == result


@pytest.mark.parametrize("code", ["600356", "6005565b5b", "60045660" + "5b", "6001600957"])
def test_jumps_go_to_jump_destinations_only(code: str) -> None:
    assert run_code(code).error == "invalid jump destination"


def test_the_remaining_gas_is_exact() -> None:
    assert result_of("5a", gas=1000) == 998
    assert result_of("60016001015a", gas=1000) == 1000 - 3 - 3 - 3 - 2


def test_stop_and_return() -> None:
    assert run_code("00").output == b""
    assert returned_word(run_code("602a5f5260205ff3")) == 42


def test_revert_returns_gas_and_data_and_undoes_changes() -> None:
    state = State(StateDatabase())
    frame = run_code("6001600055" + "602a5f52" + "60205ffd", state=state)
    assert not frame.succeeded and frame.error == "execution reverted"
    assert int.from_bytes(frame.output, "big") == 42 and 0 < frame.gas < GAS
    assert state.storage(CONTRACT, 0) == 0 and state.refund == 0
