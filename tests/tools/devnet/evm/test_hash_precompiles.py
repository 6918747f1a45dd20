"""Signature recovery, modular exponentiation and BLAKE2 compression; test_eels_differential compares the hashes."""

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, utils
from cryptography.hazmat.primitives.hashes import SHA256
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.tools.devnet.evm import hash_precompiles as hashes
from rollup_node.tools.devnet.evm.call_frame import ExceptionalHalt
from rollup_node.tools.devnet.evm.hash_precompiles import gas_from_berlin, gas_from_osaka, modexp, verify_p256
from tests.support.chains.precompile_vectors import PrecompileVector, vectors_of


@pytest.mark.parametrize("vector", vectors_of(0x01, 0x05, 0x09, 0x100), ids=lambda item: f"{item.fork}: {item.name}")
def test_known_results(vector: PrecompileVector) -> None:
    vector.check()


def test_invalid_signatures_recover_nothing() -> None:
    assert hashes.recover(b"") == b""
    assert hashes.recover(bytes(63) + b"\x1b" + b"\xff" * 64) == b""


def test_blake2_checks_length_and_flag() -> None:
    with pytest.raises(ExceptionalHalt, match="length"):
        hashes.blake2_gas(bytes(212))
    assert hashes.blake2_gas((5).to_bytes(4, "big") + bytes(209)) == 5
    with pytest.raises(ExceptionalHalt, match="flag"):
        hashes.blake2(bytes(212) + b"\x02")


operands = st.binary(max_size=40)


def encode(base: bytes, exponent: bytes, modulus: bytes) -> bytes:
    return b"".join(len(part).to_bytes(32, "big") for part in (base, exponent, modulus)) + base + exponent + modulus


@given(operands, operands, operands)
def test_results_are_pythons(base: bytes, exponent: bytes, modulus: bytes) -> None:
    numbers = [int.from_bytes(part, "big") for part in (base, exponent, modulus)]
    expected = pow(*numbers).to_bytes(len(modulus), "big") if numbers[2] else bytes(len(modulus))
    assert modexp(encode(base, exponent, modulus)) == expected


def test_missing_input_of_modexp_is_zero() -> None:
    assert modexp(b"") == b""
    assert modexp(encode(b"\x02", b"\x03", b"\x05")[:-1]) == b"\x00"


def test_minimum_gas_and_operand_limit() -> None:
    assert (gas_from_berlin(b""), gas_from_osaka(b"")) == (200, 500)
    large = encode(bytes(1025), b"\x01", b"\x05")
    assert gas_from_berlin(large) > 0
    with pytest.raises(ExceptionalHalt, match="1024"):
        gas_from_osaka(large)


def test_a_signature_is_valid_for_its_digest_and_key_only() -> None:
    key = ec.derive_private_key(12345, ec.SECP256R1())
    digest = b"\x07" * 32
    r, s = utils.decode_dss_signature(key.sign(digest, ec.ECDSA(utils.Prehashed(SHA256()))))
    point = key.public_key().public_numbers()
    words = [r, s, point.x, point.y]
    encoded = b"".join(word.to_bytes(32, "big") for word in words)
    assert verify_p256(digest + encoded) == (1).to_bytes(32, "big")
    assert verify_p256(b"\x08" * 32 + encoded) == b""
    assert verify_p256(digest + encoded[:-1]) == b""
    assert verify_p256(digest + encoded[:-1] + bytes([encoded[-1] ^ 1])) == b""
