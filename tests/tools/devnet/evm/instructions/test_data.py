"""Stack and memory instructions."""

import pytest

from rollup_node.tools.devnet.evm.state import State, StateDatabase
from tests.support.chains.evm_programs import CONTRACT, GAS, result_of, returned_word, run_code


@pytest.mark.parametrize(
    ("code", "result"),
    [
        ("6001600250", 1),
        ("6001600281", 1),
        ("6001600280", 2),
        ("6001600290", 1),
        ("600160026003600490" + "50", 4),
        ("602a5f52" + "5f51", 42),
        ("602a601f53" + "5f51", 42),
        ("61012a601f53" + "5f51", 42),
        ("59", 0),
        ("60ff601f53" + "59", 32),
        ("602a5f52" + "602060005f5e" + "5f51", 42),
        ("602a5f52" + "60205f60205e" + "602051", 42),
    ],
)
def test_results(code: str, result: int) -> None:
    assert result_of(code) == result


def test_memory_costs_grow_quadratically() -> None:
    assert GAS - run_code("61ffff51").gas == 3 + 3 + 3 * 2049 + 2049 * 2049 // 512
    assert GAS - run_code("5f51").gas == 2 + 3 + 3
    assert run_code("7f" + "ff" * 32 + "51").error == "out of gas: memory"


SSTORE_0 = "5f55"


def state_with(value: int) -> State:
    """Return a state whose contract has a value in slot 0."""
    state = State(StateDatabase())
    state.set_nonce(CONTRACT, 1)
    state.set_storage(CONTRACT, 0, value)
    state.commit()
    return state


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
    frame = run_code("".join(f"60{value:02x}" + SSTORE_0 for value in values), state=state_with(original))
    assert GAS - frame.gas - len(values) * 5 == gas
    assert frame.state.refund == refund
    assert frame.state.storage(CONTRACT, 0) == values[-1]


def test_sstore_needs_more_gas_than_the_stipend() -> None:
    assert "call stipend" in run_code("6001" + SSTORE_0, gas=2305).error
    assert run_code("6001" + SSTORE_0, gas=2306).error == "out of gas"


def test_sload_is_cheaper_when_warm() -> None:
    assert GAS - run_code("5f545f54").gas == 2 + 2100 + 2 + 100
    assert result_of("5f54", state=state_with(9)) == 9


def test_transient_storage_lasts_for_the_transaction() -> None:
    state = state_with(0)
    assert result_of("602a5f5d" + "5f5c", state=state) == 42
    assert GAS - run_code("602a5f5d" + "5f5c").gas == 3 + 2 + 100 + 2 + 100
    assert result_of("5f5c", state=state) == 0


def test_logs() -> None:
    frame = run_code("60ff5f53" + "60076006" + "6001" + "5f" + "a2")
    (log,) = frame.state.logs
    assert (log.address, log.data) == (CONTRACT, b"\xff")
    assert log.topics == ((6).to_bytes(32, "big"), (7).to_bytes(32, "big"))
    assert GAS - run_code("60205fa0").gas == 3 + 2 + 375 + 8 * 32 + 3


@pytest.mark.parametrize("code", ["60016000" + "55", "60016000" + "5d", "5f5fa0"])
def test_a_static_call_writes_nothing(code: str) -> None:
    assert run_code(code, is_static=True).error == "write protection"


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
def test_results_of_jumps_and_ends(code: str, result: int) -> None:
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
