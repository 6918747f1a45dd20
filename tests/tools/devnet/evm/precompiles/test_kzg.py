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
def test_a_number_that_is_no_field_element_halts(at: int) -> None:
    data = bytes.fromhex(VECTOR.input)
    number = int.from_bytes(data[at : at + 32], "big") + FIELD_MODULUS
    with pytest.raises(ExceptionalHalt, match="not a field element"):
        evaluate(data[:at] + number.to_bytes(32, "big") + data[at + 32 :])


def test_a_wrong_length_halts() -> None:
    with pytest.raises(ExceptionalHalt, match="length"):
        evaluate(bytes.fromhex(VECTOR.input)[:-1])
