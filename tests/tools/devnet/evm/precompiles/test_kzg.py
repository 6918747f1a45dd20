"""The point evaluation precompile."""

import pytest

from rollup_node.stages.blobs.kzg import FIELD_MODULUS
from rollup_node.tools.devnet.evm.call_frame import ExceptionalHalt
from rollup_node.tools.devnet.evm.precompiles.kzg import evaluate
from tests.support.chains.precompile_vectors import PrecompileVector, vectors_of

(VECTOR,) = vectors_of(0x0A)


@pytest.mark.parametrize("vector", [VECTOR], ids=lambda each: each.name)
def test_known_result(vector: PrecompileVector) -> None:
    vector.check()


@pytest.mark.parametrize(
    ("at", "error"), [(0, "versioned hash"), (32, "invalid point evaluation"), (150, "invalid point evaluation")]
)
def test_changed_input_halts(at: int, error: str) -> None:
    data = bytearray.fromhex(VECTOR.input)
    data[at] ^= 1
    with pytest.raises(ExceptionalHalt, match=error):
        evaluate(bytes(data))


@pytest.mark.parametrize("at", [32, 64])
def test_a_point_and_a_value_are_below_the_field_modulus(at: int) -> None:
    data = bytearray.fromhex(VECTOR.input)
    data[at : at + 32] = (int.from_bytes(data[at : at + 32], "big") + FIELD_MODULUS).to_bytes(32, "big")
    with pytest.raises(ExceptionalHalt, match="no field element"):
        evaluate(bytes(data))


def test_a_wrong_length_halts() -> None:
    with pytest.raises(ExceptionalHalt, match="length"):
        evaluate(bytes.fromhex(VECTOR.input)[:-1])
