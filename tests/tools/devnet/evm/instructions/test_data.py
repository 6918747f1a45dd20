"""SSTORE; what other instructions of stack, memory, storage and flow do is compared in test_eels_differential."""

import pytest

from rollup_node.tools.devnet.evm.state import State, StateDatabase
from tests.support.chains.evm_programs import CONTRACT, GAS, run_code

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
