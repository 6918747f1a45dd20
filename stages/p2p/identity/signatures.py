"""Signatures by the keys of peers, of any of libp2p's key types. Apart from peer ids, which do without this library.

Source: https://github.com/libp2p/specs/blob/master/peer-ids/peer-ids.md"""

import hashlib

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.serialization import load_der_public_key

from rollup_node.stages.p2p.identity.peer_id import ECDSA, ED25519, RSA, SECP256K1, PublicKey
from rollup_node.stages.protocol import secp256k1

_MAX_SIGNATURE_BYTES = 1024


def verify(key: PublicKey, message: bytes, signature: bytes) -> bool:
    """Whether `signature` is that of the key's owner of `message`; False also for a key that is unusable."""
    if len(signature) > _MAX_SIGNATURE_BYTES:
        return False
    try:
        return _VERIFIERS[key.kind](key.data, message, signature)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False


def _verify_secp256k1(key: bytes, message: bytes, signature: bytes) -> bool:
    return secp256k1.verify_der(key, hashlib.sha256(message).digest(), signature)


def _verify_ed25519(key: bytes, message: bytes, signature: bytes) -> bool:
    ed25519.Ed25519PublicKey.from_public_bytes(key).verify(signature, message)
    return True


def _verify_rsa(key: bytes, message: bytes, signature: bytes) -> bool:
    loaded = load_der_public_key(key)
    if not isinstance(loaded, rsa.RSAPublicKey) or not 2048 <= loaded.key_size <= 8192:
        return False
    loaded.verify(signature, message, padding.PKCS1v15(), hashes.SHA256())
    return True


def _verify_ecdsa(key: bytes, message: bytes, signature: bytes) -> bool:
    loaded = load_der_public_key(key)
    if not isinstance(loaded, ec.EllipticCurvePublicKey):
        return False
    loaded.verify(signature, message, ec.ECDSA(hashes.SHA256()))
    return True


_VERIFIERS = {RSA: _verify_rsa, ED25519: _verify_ed25519, SECP256K1: _verify_secp256k1, ECDSA: _verify_ecdsa}
