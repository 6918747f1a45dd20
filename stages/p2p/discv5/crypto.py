"""The keys of discovery v5.1 with the identity scheme "v4": ECDH on secp256k1 and HKDF-SHA256, 64-byte signatures."""

import hashlib
import hmac

from rollup_node.stages.protocol import secp256k1
from rollup_node.stages.protocol.keccak import keccak256

NodeId = bytes
"""keccak-256 of a node's public key."""

KEY_SIZE = 16
SIGNATURE_SIZE = 64
PUBLIC_KEY_SIZE = 33

_KEY_AGREEMENT_INFO = b"discovery v5 key agreement"
_ID_SIGNATURE_TEXT = b"discovery v5 identity proof"


class CryptoError(ValueError):
    """A key that is not on the curve."""


def public_key(secret: bytes) -> bytes:
    """Return the compressed public key of a private key. Raises CryptoError when it is outside of the group."""
    try:
        return secp256k1.public_key(secret)
    except ValueError:
        raise CryptoError("not a private key of secp256k1") from None


def compress_public_key(point: bytes) -> bytes:
    """Return the compressed form of a public key of 64 (without prefix), 65 or 33 bytes. Raises CryptoError."""
    try:
        return secp256k1.convert_point(b"\x04" + point if len(point) == 64 else point)
    except ValueError:
        raise CryptoError("not a public key of secp256k1") from None


def node_id(key: bytes) -> NodeId:
    """Return the node id of a compressed public key. Raises CryptoError."""
    try:
        return keccak256(secp256k1.convert_point(key, compressed=False)[1:])
    except ValueError:
        raise CryptoError("not a public key of secp256k1") from None


def ecdh(key: bytes, secret: bytes) -> bytes:
    """Return the shared point, compressed. Raises CryptoError."""
    try:
        return secp256k1.multiply_point(key, secret)
    except ValueError:
        raise CryptoError("not a public key of secp256k1") from None


def derive_keys(shared: bytes, challenge_data: bytes, initiator: NodeId, recipient: NodeId) -> tuple[bytes, bytes]:
    """Return the initiator's and the recipient's write key of a session."""
    pseudorandom_key = hmac.digest(challenge_data, shared, "sha256")
    keys = hmac.digest(pseudorandom_key, _KEY_AGREEMENT_INFO + initiator + recipient + b"\x01", "sha256")
    return keys[:KEY_SIZE], keys[KEY_SIZE:]


def sign(secret: bytes, digest: bytes) -> bytes:
    """Return the signature (r, s) of 32 bytes."""
    return secp256k1.sign_recoverable(digest, secret)[:SIGNATURE_SIZE]


def verify(key: bytes, signature: bytes, digest: bytes) -> bool:
    """Whether the key's owner signed the digest; signatures with a high s are invalid."""
    return secp256k1.verify_compact(key, digest, signature)


def id_signature_hash(challenge_data: bytes, ephemeral_key: bytes, recipient: NodeId) -> bytes:
    """Return the hash that the initiator of a handshake signs (id-signature)."""
    return hashlib.sha256(_ID_SIGNATURE_TEXT + challenge_data + ephemeral_key + recipient).digest()
