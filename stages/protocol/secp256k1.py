"""secp256k1, the curve of Ethereum's and libp2p's keys, by libsecp256k1: points and signatures as bytes.

Private keys have 32 bytes; points have 33 bytes compressed or 65 uncompressed, digests 32, recoverable signatures 65
(r, s and the recovery id). Every signature made here has a low s. Ethereum's keys are those of `keys`."""

from btclib_libsecp256k1 import dsa, keys, recovery

from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.types import Address, Hash

ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
"""The number of points of the group: private keys, r and s are below it."""
SIGNATURE_SIZE = 65
COMPACT_SIZE = 64
"""A signature without its recovery id."""


def public_key(secret: bytes, compressed: bool = True) -> bytes:
    """Return the point of a private key. Raises ValueError when that is not a number of 32 bytes within the group."""
    return keys.pubkey_from_prvkey(secret, compressed)


def convert_point(point: bytes, compressed: bool = True) -> bytes:
    """Return the same point in another form. Raises ValueError when it is not on the curve."""
    return keys.serialize(keys.parse(point), compressed)


def multiply_point(point: bytes, secret: bytes) -> bytes:
    """Return the product, compressed: the shared point of a Diffie-Hellman exchange.

    Raises ValueError for a point that is not on the curve or a private key outside of the group."""
    return keys.pubkey_tweak_mul(point, secret)


def sign_recoverable(digest: bytes, secret: bytes) -> bytes:
    """Return a signature of 65 bytes. Raises ValueError for a private key outside of the group."""
    compact, recovery_id = recovery.sign(digest, secret)
    return compact + bytes((recovery_id,))


def recover_point(digest: bytes, signature: bytes) -> bytes:
    """Return the uncompressed point that made a 65-byte signature, a high s included. Raises ValueError if invalid."""
    return recovery.recover(digest, signature[:COMPACT_SIZE], signature[COMPACT_SIZE], False)


def recover_address(digest: Hash, signature: bytes) -> Address | None:
    """Return the account whose key made the signature of 65 bytes, None for an invalid one. A high s is valid.

    Without eth-keys, whose imports are an eighth of a node's, for every node recovers the senders of batches."""
    if len(signature) != SIGNATURE_SIZE or signature[COMPACT_SIZE] > 1:
        return None
    try:
        return keccak256(recover_point(digest, signature)[1:])[12:]
    except ValueError:
        return None


def verify_compact(point: bytes, digest: bytes, signature: bytes) -> bool:
    """Whether the key of that point made the signature of 64 bytes; False for a high s and for an invalid point."""
    try:
        return dsa.verify(digest, point, dsa.to_der(signature))
    except ValueError:
        return False


def sign_der(digest: bytes, secret: bytes) -> bytes:
    """Return a signature in DER. Raises ValueError for a private key outside of the group."""
    return dsa.sign(digest, secret)


def verify_der(point: bytes, digest: bytes, signature: bytes) -> bool:
    """Whether the key of that point made the signature in DER; False for a high s and for an invalid point."""
    try:
        return dsa.verify(digest, point, signature)
    except ValueError:
        return False
