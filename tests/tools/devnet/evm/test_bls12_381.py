"""The BLS12-381 precompiles by known results, and the discounts of multi-scalar multiplications."""

import pytest

from rollup_node.stages.blobs.kzg import FIELD_MODULUS
from rollup_node.tools.devnet.evm.bls12_381 import (
    evaluate_point,
    g1_sum,
    g1_sum_gas,
    g2_sum_gas,
    pairing,
    pairing_gas,
)
from rollup_node.tools.devnet.evm.call_frame import ExceptionalHalt
from tests.support.chains.precompile_vectors import PrecompileVector, vectors_of


@pytest.mark.parametrize(
    "vector", vectors_of(0x0A, 0x0B, 0x0C, 0x0D, 0x0E, 0x0F, 0x10, 0x11), ids=lambda item: item.name
)
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


(VECTOR,) = vectors_of(0x0A)


@pytest.mark.parametrize(
    ("at", "error"), [(0, "versioned hash"), (32, "invalid point evaluation"), (150, "invalid point evaluation")]
)
def test_changed_input_halts(at: int, error: str) -> None:
    data = bytearray.fromhex(VECTOR.input)
    data[at] ^= 1
    with pytest.raises(ExceptionalHalt, match=error):
        evaluate_point(bytes(data))


@pytest.mark.parametrize("at", [32, 64])
def test_a_number_that_is_no_field_element_halts(at: int) -> None:
    data = bytes.fromhex(VECTOR.input)
    number = int.from_bytes(data[at : at + 32], "big") + FIELD_MODULUS
    with pytest.raises(ExceptionalHalt, match="not a field element"):
        evaluate_point(data[:at] + number.to_bytes(32, "big") + data[at + 32 :])


def test_a_wrong_length_halts() -> None:
    with pytest.raises(ExceptionalHalt, match="length"):
        evaluate_point(bytes.fromhex(VECTOR.input)[:-1])
