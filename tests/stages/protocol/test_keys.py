"""eth-keys over libsecp256k1, beside eth-keys over its own implementation of the curve."""

import pytest
from eth_keys.backends.native.main import NativeECCBackend
from eth_keys.datatypes import NonRecoverableSignature, PrivateKey, PublicKey, Signature
from eth_keys.exceptions import BadSignature
from eth_keys.main import KeyAPI
from eth_utils.exceptions import ValidationError

from rollup_node.stages.protocol import secp256k1
from rollup_node.stages.protocol.keys import BACKEND, KEYS, private_key
from rollup_node.stages.protocol.secp256k1 import recover_address

NATIVE = NativeECCBackend()
DIGEST = b"\x09" * 32
KEY = private_key(b"\x07" * 32)
OFF_CURVE = b"\xff" * 64


@pytest.mark.parametrize("secret", [b"\x01" * 32, (1).to_bytes(32, "big"), (secp256k1.ORDER - 1).to_bytes(32, "big")])
def test_all_operations_are_those_of_the_native_backend(secret: bytes) -> None:
    ours, native = PrivateKey(secret, BACKEND), PrivateKey(secret, NATIVE)
    assert ours.public_key == native.public_key
    assert ours.public_key.to_canonical_address() == native.public_key.to_canonical_address()
    compressed = ours.public_key.to_compressed_bytes()
    assert compressed == native.public_key.to_compressed_bytes()
    assert PublicKey.from_compressed_bytes(compressed, BACKEND) == ours.public_key
    signature = KEYS.ecdsa_sign(DIGEST, ours)
    assert signature.to_bytes() == secp256k1.sign_recoverable(DIGEST, secret)
    assert KeyAPI(NATIVE).ecdsa_recover(DIGEST, signature) == ours.public_key
    assert KEYS.ecdsa_recover(DIGEST, native.sign_msg_hash(DIGEST)) == ours.public_key
    plain = KEYS.ecdsa_sign_non_recoverable(DIGEST, ours)
    assert isinstance(plain, NonRecoverableSignature)
    for item in (signature, plain, native.sign_msg_hash_non_recoverable(DIGEST)):
        assert KEYS.ecdsa_verify(DIGEST, item, ours.public_key) and KeyAPI(NATIVE).ecdsa_verify(
            DIGEST, item, native.public_key
        )
        assert not KEYS.ecdsa_verify(bytes(32), item, ours.public_key)


def test_a_high_s_is_valid_as_in_the_native_backend() -> None:
    v, r, s = KEY.sign_msg_hash(DIGEST).vrs
    high = Signature(vrs=(1 - v, r, secp256k1.ORDER - s), backend=BACKEND)
    for keys in (KEYS, KeyAPI(NATIVE)):
        assert keys.ecdsa_verify(DIGEST, high, KEY.public_key)
        assert keys.ecdsa_recover(DIGEST, high) == KEY.public_key
    assert recover_address(DIGEST, high.to_bytes()) == KEY.public_key.to_canonical_address()


@pytest.mark.parametrize("secret", [bytes(32), secp256k1.ORDER.to_bytes(32, "big"), b"", b"\1" * 31])
def test_what_is_no_private_key(secret: bytes) -> None:
    with pytest.raises(ValueError, match="not a private key"):
        private_key(secret)


def test_what_is_no_point_and_no_signature() -> None:
    with pytest.raises(ValidationError):
        PublicKey.from_compressed_bytes(b"\2" + OFF_CURVE[:32], BACKEND)
    with pytest.raises(ValidationError):
        PublicKey(OFF_CURVE, BACKEND).to_compressed_bytes()
    signature = Signature(vrs=(0, secp256k1.ORDER - 1, 1), backend=BACKEND)
    assert not KEYS.ecdsa_verify(DIGEST, signature, PublicKey(OFF_CURVE, BACKEND))
    with pytest.raises(BadSignature):
        KEYS.ecdsa_recover(DIGEST, Signature(vrs=(3, 1, 1), backend=BACKEND))


@pytest.mark.parametrize("recovery_id", (2, 3, 4, 27, 28, 255))
def test_the_recovery_id_is_0_or_1(recovery_id: int) -> None:
    signature = KEY.sign_msg_hash(DIGEST).to_bytes()[:64]
    for wrong in (signature + bytes((recovery_id,)), signature, signature + bytes(2)):
        assert recover_address(DIGEST, wrong) is None
