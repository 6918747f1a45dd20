"""Keys and signatures, beside eth-keys' own implementation of the curve."""

import pytest
from eth_keys.backends import get_backend
from eth_keys.datatypes import PrivateKey, Signature
from hypothesis import given, settings
from hypothesis import strategies as st

from rollup_node.stages.protocol import secp256k1

NATIVE = get_backend("eth_keys.backends.NativeECCBackend")
SECRETS = st.integers(1, secp256k1.ORDER - 1).map(lambda number: number.to_bytes(32, "big"))
DIGESTS = st.binary(min_size=32, max_size=32)
NOT_SECRETS = (bytes(32), secp256k1.ORDER.to_bytes(32, "big"), b"\xff" * 32, b"\x01" * 31, b"\x01" * 33, b"")
OFF_CURVE = b"\x02" + b"\xff" * 32
SECRET, DIGEST = b"\x07" * 32, b"\x09" * 32
POINT = secp256k1.public_key(SECRET)


@settings(max_examples=10)
@given(SECRETS, DIGESTS)
def test_keys_and_signatures_are_those_of_another_implementation(secret: bytes, digest: bytes) -> None:
    key = PrivateKey(secret, NATIVE)
    point = secp256k1.public_key(secret)
    assert point == key.public_key.to_compressed_bytes()
    assert secp256k1.public_key(secret, compressed=False) == b"\x04" + key.public_key.to_bytes()
    signature = secp256k1.sign_recoverable(digest, secret)
    assert Signature(signature, backend=NATIVE).recover_public_key_from_msg_hash(digest) == key.public_key
    theirs = key.sign_msg_hash(digest).to_bytes()
    assert {secp256k1.recover_point(digest, item)[1:] for item in (signature, theirs)} == {key.public_key.to_bytes()}
    assert secp256k1.verify_compact(point, digest, signature[: secp256k1.COMPACT_SIZE])
    assert secp256k1.verify_der(point, digest, secp256k1.sign_der(digest, secret))


@settings(max_examples=10)
@given(SECRETS, SECRETS)
def test_both_sides_of_an_exchange_have_the_same_point(ours: bytes, theirs: bytes) -> None:
    shared = secp256k1.multiply_point(secp256k1.public_key(theirs), ours)
    assert shared == secp256k1.multiply_point(secp256k1.public_key(ours, compressed=False), theirs)
    product = int.from_bytes(ours, "big") * int.from_bytes(theirs, "big") % secp256k1.ORDER
    assert shared == secp256k1.public_key(product.to_bytes(32, "big"))


@pytest.mark.parametrize("secret", NOT_SECRETS)
def test_what_is_no_private_key(secret: bytes) -> None:
    with pytest.raises(ValueError):
        secp256k1.public_key(secret)
    with pytest.raises(ValueError):
        secp256k1.sign_recoverable(DIGEST, secret)
    with pytest.raises(ValueError):
        secp256k1.multiply_point(POINT, secret)


@pytest.mark.parametrize("point", (OFF_CURVE, b"", POINT[:-1], POINT + b"\0", b"\x05" + POINT[1:]))
def test_what_is_no_point(point: bytes) -> None:
    with pytest.raises(ValueError):
        secp256k1.convert_point(point)
    with pytest.raises(ValueError):
        secp256k1.multiply_point(point, SECRET)
    assert not secp256k1.verify_compact(point, DIGEST, secp256k1.sign_recoverable(DIGEST, SECRET)[:64])
    assert not secp256k1.verify_der(point, DIGEST, secp256k1.sign_der(DIGEST, SECRET))


@given(st.binary(max_size=80))
def test_any_bytes_as_a_signature(signature: bytes) -> None:
    assert not secp256k1.verify_compact(POINT, DIGEST, signature)
    assert not secp256k1.verify_der(POINT, DIGEST, signature)


def test_a_high_s_does_not_verify() -> None:
    signature = secp256k1.sign_recoverable(DIGEST, SECRET)
    high = (secp256k1.ORDER - int.from_bytes(signature[32:64], "big")).to_bytes(32, "big")
    other = signature[:32] + high + bytes((1 - signature[64],))
    assert not secp256k1.verify_compact(POINT, DIGEST, other[:64])
