"""Precompiles by known results, and malformed input. test_eels_differential compares the hashes."""

import json
import sys
from pathlib import Path
from types import ModuleType

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, utils
from cryptography.hazmat.primitives.hashes import SHA256
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.blobs.kzg import FIELD_MODULUS
from rollup_node.tools.devnet.evm import bn254, forks
from rollup_node.tools.devnet.evm import hash_precompiles as hashes
from rollup_node.tools.devnet.evm.bls12_381 import evaluate_point, g1_sum_gas
from rollup_node.tools.devnet.evm.bn254 import add, multiply, pairing
from rollup_node.tools.devnet.evm.call_frame import ExceptionalHalt
from rollup_node.tools.devnet.evm.hash_precompiles import gas_from_berlin, gas_from_osaka, modexp, verify_p256


class PrecompileVector(msgspec.Struct, frozen=True):
    """A call of a precompile: input and output in hex, no output for an exceptional halt."""

    name: str
    address: int
    fork: str
    input: str
    output: str | None
    gas: int | None

    def check(self) -> None:
        """Assert gas and output, or the halt."""
        precompile = getattr(forks, self.fork.upper()).precompiles[forks.at(self.address)]
        data = bytes.fromhex(self.input)
        if self.output is None:
            with pytest.raises(ExceptionalHalt):
                precompile.gas(data)
                precompile.run(data)
        else:
            assert precompile.run(data).hex() == self.output
            assert precompile.gas(data) == self.gas


VECTORS = msgspec.convert(
    json.loads(Path(__file__).with_name("precompile_vectors.json").read_text()), list[PrecompileVector]
)
"""From go-ethereum's test data."""


@pytest.mark.parametrize("vector", VECTORS, ids=lambda item: f"{item.address:02x} {item.fork}: {item.name}")
def test_known_results(vector: PrecompileVector) -> None:
    vector.check()


def test_gas_by_number_of_terms() -> None:
    assert g1_sum_gas(b"") == 0
    assert g1_sum_gas(bytes(160)) == 12_000
    assert g1_sum_gas(bytes(160 * 2)) == 2 * 12_000 * 949 // 1000
    assert g1_sum_gas(bytes(160 * 500)) == 500 * 12_000 * 519 // 1000


(VECTOR,) = (vector for vector in VECTORS if vector.address == 0x0A)


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


class RaisingLimits(ModuleType):
    """As py-ecc is when it is imported."""

    def __getattr__(self, name: str) -> ModuleType:
        sys.setrecursionlimit(100_000)
        return self


def test_the_recursion_limit_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "py_ecc", RaisingLimits("py_ecc"))
    before = sys.getrecursionlimit()
    assert isinstance(bn254._curve(), RaisingLimits)
    assert sys.getrecursionlimit() == before


def test_short_input_is_zero_padded() -> None:
    assert multiply(b"") == bytes(64)
    generator = (1).to_bytes(32, "big") + (2).to_bytes(32, "big")
    assert add(generator) == generator
    assert multiply(generator + bytes(31) + b"\x01") == generator


@pytest.mark.parametrize("data", [b"\xff" * 64, (1).to_bytes(32, "big") * 2])
def test_points_off_the_curve_halt(data: bytes) -> None:
    with pytest.raises(ExceptionalHalt):
        add(data)


def test_a_pairing_takes_whole_pairs() -> None:
    with pytest.raises(ExceptionalHalt, match="pairs"):
        pairing(bytes(191))


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
