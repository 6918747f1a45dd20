"""Verification of secp256r1 signatures."""

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, utils

from rollup_node.tools.devnet.evm.precompiles.p256 import verify
from tests.support.chains.precompile_vectors import PrecompileVector, vectors_of


@pytest.mark.parametrize("vector", vectors_of(0x100), ids=lambda each: each.name)
def test_known_results(vector: PrecompileVector) -> None:
    vector.check()


def test_a_signature_is_valid_for_its_digest_and_key_only() -> None:
    key = ec.derive_private_key(12345, ec.SECP256R1())
    digest = b"\x07" * 32
    r, s = utils.decode_dss_signature(key.sign(digest, ec.ECDSA(utils.Prehashed(hashes.SHA256()))))
    point = key.public_key().public_numbers()
    words = [r, s, point.x, point.y]
    encoded = b"".join(word.to_bytes(32, "big") for word in words)
    assert verify(digest + encoded) == (1).to_bytes(32, "big")
    assert verify(b"\x08" * 32 + encoded) == b""
    assert verify(digest + encoded[:-1]) == b""
    assert verify(digest + encoded[:-1] + bytes([encoded[-1] ^ 1])) == b""
