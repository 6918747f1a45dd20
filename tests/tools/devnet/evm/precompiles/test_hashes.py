"""Signature recovery, hash functions, identity and BLAKE2 compression."""

import hashlib

import pytest

from rollup_node.tools.devnet.evm.call_frame import ExceptionalHalt
from rollup_node.tools.devnet.evm.precompiles import hashes
from tests.support.chains.precompile_vectors import PrecompileVector, vectors_of


@pytest.mark.parametrize("vector", vectors_of(0x01, 0x09), ids=lambda each: each.name)
def test_known_results(vector: PrecompileVector) -> None:
    vector.check()


def test_hash_functions_and_identity() -> None:
    assert hashes.sha256(b"abc") == hashlib.sha256(b"abc").digest()
    assert hashes.ripemd160(b"abc").hex() == "00" * 12 + "8eb208f7e05d987a9b044a8e98c6b087f15a0bfc"
    assert hashes.identity(b"abc") == b"abc"


def test_words_are_rounded_up() -> None:
    assert [hashes.words(bytes(size)) for size in (0, 1, 32, 33)] == [0, 1, 1, 2]


def test_invalid_signatures_recover_nothing() -> None:
    assert hashes.recover(b"") == b""
    assert hashes.recover(bytes(63) + b"\x1b" + b"\xff" * 64) == b""


def test_blake2_checks_length_and_flag() -> None:
    with pytest.raises(ExceptionalHalt, match="length"):
        hashes.blake2_gas(bytes(212))
    assert hashes.blake2_gas((5).to_bytes(4, "big") + bytes(209)) == 5
    with pytest.raises(ExceptionalHalt, match="flag"):
        hashes.blake2(bytes(212) + b"\x02")
