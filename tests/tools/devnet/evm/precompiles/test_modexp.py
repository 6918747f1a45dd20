"""Modular exponentiation: results compared with Python's, gas by known values."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.tools.devnet.evm.call_frame import ExceptionalHalt
from rollup_node.tools.devnet.evm.precompiles.modexp import gas_from_berlin, gas_from_osaka, modexp
from tests.support.chains.precompile_vectors import PrecompileVector, vectors_of

operands = st.binary(max_size=40)


def encode(base: bytes, exponent: bytes, modulus: bytes) -> bytes:
    return b"".join(len(part).to_bytes(32, "big") for part in (base, exponent, modulus)) + base + exponent + modulus


@pytest.mark.parametrize("vector", vectors_of(0x05), ids=lambda each: f"{each.fork}: {each.name}")
def test_known_results(vector: PrecompileVector) -> None:
    vector.check()


@given(operands, operands, operands)
def test_results_are_pythons(base: bytes, exponent: bytes, modulus: bytes) -> None:
    numbers = [int.from_bytes(part, "big") for part in (base, exponent, modulus)]
    expected = pow(*numbers).to_bytes(len(modulus), "big") if numbers[2] else bytes(len(modulus))
    assert modexp(encode(base, exponent, modulus)) == expected


def test_missing_input_is_zero() -> None:
    assert modexp(b"") == b""
    assert modexp(encode(b"\x02", b"\x03", b"\x05")[:-1]) == b"\x00"


def test_minimum_gas_and_operand_limit() -> None:
    assert (gas_from_berlin(b""), gas_from_osaka(b"")) == (200, 500)
    large = encode(bytes(1025), b"\x01", b"\x05")
    assert gas_from_berlin(large) > 0
    with pytest.raises(ExceptionalHalt, match="1024"):
        gas_from_osaka(large)
