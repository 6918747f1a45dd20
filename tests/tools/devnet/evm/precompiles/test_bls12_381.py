"""The BLS12-381 precompiles by known results, and the discounts of multi-scalar multiplications."""

import pytest

from rollup_node.tools.devnet.evm.call_frame import ExceptionalHalt
from rollup_node.tools.devnet.evm.precompiles.bls12_381 import g1_sum, g1_sum_gas, g2_sum_gas, pairing, pairing_gas
from tests.support.chains.precompile_vectors import PrecompileVector, vectors_of


@pytest.mark.parametrize("vector", vectors_of(0x0B, 0x0C, 0x0D, 0x0E, 0x0F, 0x10, 0x11), ids=lambda each: each.name)
def test_known_results(vector: PrecompileVector) -> None:
    vector.check()


def test_gas_by_number_of_terms() -> None:
    assert g1_sum_gas(b"") == 0
    assert g1_sum_gas(bytes(160)) == 12_000
    assert g1_sum_gas(bytes(160 * 2)) == 2 * 12_000 * 949 // 1000
    assert g1_sum_gas(bytes(160 * 500)) == 500 * 12_000 * 519 // 1000
    assert g2_sum_gas(bytes(288)) == 22_500
    assert pairing_gas(bytes(384 * 3)) == 37_700 + 3 * 32_600


def test_empty_input_halts() -> None:
    for precompile in (g1_sum, pairing):
        with pytest.raises(ExceptionalHalt):
            precompile(b"")
