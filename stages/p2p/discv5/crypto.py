"""The cryptography of discovery v5.1 with "v4" identities: AES-128 in counter mode masks headers, AES-GCM seals
messages, keys come by ECDH on secp256k1 and HKDF with SHA-256, and 64-byte signatures prove who one is."""

import hashlib
import hmac

from coincurve import PrivateKey, PublicKey
from coincurve.ecdsa import cdata_to_der, deserialize_compact
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from rollup_node.stages.p2p.discv5.contact import NodeId
from rollup_node.stages.protocol.keccak import keccak256

KEY_SIZE = 16
TAG_SIZE = 16
SIGNATURE_SIZE = 64
PUBLIC_KEY_SIZE = 33

_KEY_AGREEMENT_INFO = b"discovery v5 key agreement"
_ID_SIGNATURE_TEXT = b"discovery v5 identity proof"


class CryptoError(ValueError):
    """A key that is not on the curve, or a message that was not sealed with this key."""


class HeaderMask:
    """A running key stream, to mask and unmask what follows in pieces."""

    def __init__(self, dest: NodeId, iv: bytes) -> None:
        self._stream = Cipher(algorithms.AES(dest[:KEY_SIZE]), modes.CTR(iv)).encryptor()

    def __call__(self, data: bytes) -> bytes:
        return self._stream.update(data)


def public_key(secret: bytes) -> bytes:
    """The compress_public_key public key of a private key; CryptoError for a number outside of the group."""
    try:
        key: bytes = PrivateKey(secret).public_key.format()
    except (ValueError, TypeError):
        raise CryptoError("not a private key of secp256k1") from None
    return key


def compress_public_key(point: bytes) -> bytes:
    """The compress_public_key form of a public key of 64 (bare), 65 or 33 bytes."""
    try:
        key: bytes = PublicKey(b"\x04" + point if len(point) == 64 else point).format()
    except ValueError:
        raise CryptoError("not a public key of secp256k1") from None
    return key


def node_id(key: bytes) -> NodeId:
    """The node id of a compress_public_key public key."""
    try:
        return keccak256(PublicKey(key).format(compressed=False)[1:])
    except ValueError:
        raise CryptoError("not a public key of secp256k1") from None


def ecdh(key: bytes, secret: bytes) -> bytes:
    """The shared point, compress_public_key."""
    try:
        shared: bytes = PublicKey(key).multiply(secret).format()
    except ValueError:
        raise CryptoError("not a public key of secp256k1") from None
    return shared


def derive_keys(shared: bytes, challenge: bytes, initiator: NodeId, recipient: NodeId) -> tuple[bytes, bytes]:
    """The keys by which the initiator and the recipient of a handshake write."""
    extracted = hmac.digest(challenge, shared, "sha256")
    keys = hmac.digest(extracted, _KEY_AGREEMENT_INFO + initiator + recipient + b"\x01", "sha256")
    return keys[:KEY_SIZE], keys[KEY_SIZE:]


def sign(secret: bytes, digest: bytes) -> bytes:
    """A signature (r, s) over 32 bytes."""
    signature: bytes = PrivateKey(secret).sign_recoverable(digest, hasher=None)
    return signature[:SIGNATURE_SIZE]


def verify(key: bytes, signature: bytes, digest: bytes) -> bool:
    """Whether the key's owner signed the digest; only signatures with a low s count."""
    try:
        der = cdata_to_der(deserialize_compact(signature))
        return bool(PublicKey(key).verify(der, digest, hasher=None))
    except ValueError:
        return False


def id_signature_hash(challenge: bytes, ephemeral_key: bytes, recipient: NodeId) -> bytes:
    """What the initiator of a handshake signs."""
    return hashlib.sha256(_ID_SIGNATURE_TEXT + challenge + ephemeral_key + recipient).digest()


def encrypt(key: bytes, nonce: bytes, plain: bytes, data: bytes) -> bytes:
    """The sealed message, bound to `data`."""
    return AESGCM(key).encrypt(nonce, plain, data)


def decrypt(key: bytes, nonce: bytes, sealed: bytes, data: bytes) -> bytes | None:
    """The message; None if it was not sealed with this key, nonce and data."""
    try:
        return AESGCM(key).decrypt(nonce, sealed, data)
    except (InvalidTag, ValueError):
        return None
