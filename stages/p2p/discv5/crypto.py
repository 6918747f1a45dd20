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


def node_id(key: bytes) -> NodeId:
    """Return the node id of a compressed public key. Raises ValueError when it is not on the curve."""
    return keccak256(secp256k1.convert_point(key, compressed=False)[1:])


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
