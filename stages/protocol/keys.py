"""Ethereum's keys, addresses and signatures: eth-keys, with libsecp256k1 as its backend."""

from functools import lru_cache

from eth_keys.backends.base import BaseECCBackend
from eth_keys.datatypes import BaseSignature, NonRecoverableSignature, PrivateKey, PublicKey, Signature
from eth_keys.exceptions import BadSignature
from eth_keys.main import KeyAPI
from eth_utils.exceptions import ValidationError

from rollup_node.stages.protocol import secp256k1

_UNCOMPRESSED = b"\x04"


class Libsecp256k1Backend(BaseECCBackend):
    """The curve by libsecp256k1. Raises ValidationError for bad keys or points, BadSignature for no recoverable key."""

    def ecdsa_sign(self, msg_hash: bytes, private_key: PrivateKey) -> Signature:
        return Signature(secp256k1.sign_recoverable(msg_hash, private_key.to_bytes()), backend=self)

    def ecdsa_sign_non_recoverable(self, msg_hash: bytes, private_key: PrivateKey) -> NonRecoverableSignature:
        signature = secp256k1.sign_recoverable(msg_hash, private_key.to_bytes())
        return NonRecoverableSignature(signature[: secp256k1.COMPACT_SIZE], backend=self)

    def ecdsa_verify(self, msg_hash: bytes, signature: BaseSignature, public_key: PublicKey) -> bool:
        """As eth-keys' own backend: a high s is valid."""
        r, s = signature.rs
        compact = r.to_bytes(32, "big") + min(s, secp256k1.ORDER - s).to_bytes(32, "big")
        return secp256k1.verify_compact(_UNCOMPRESSED + public_key.to_bytes(), msg_hash, compact)

    def ecdsa_recover(self, msg_hash: bytes, signature: Signature) -> PublicKey:
        try:
            point = secp256k1.recover_point(msg_hash, signature.to_bytes())
        except ValueError as error:
            raise BadSignature(str(error)) from None
        return PublicKey(point[1:], backend=self)

    def private_key_to_public_key(self, private_key: PrivateKey) -> PublicKey:
        try:
            point = secp256k1.public_key(private_key.to_bytes(), compressed=False)
        except ValueError as error:
            raise ValidationError(str(error)) from None
        return PublicKey(point[1:], backend=self)

    def decompress_public_key_bytes(self, compressed_public_key_bytes: bytes) -> bytes:
        return _converted(compressed_public_key_bytes, False)[1:]

    def compress_public_key_bytes(self, uncompressed_public_key_bytes: bytes) -> bytes:
        return _converted(_UNCOMPRESSED + uncompressed_public_key_bytes, True)


def _converted(point: bytes, compressed: bool) -> bytes:
    try:
        return secp256k1.convert_point(point, compressed)
    except ValueError as error:
        raise ValidationError(str(error)) from None


BACKEND = Libsecp256k1Backend()
"""For `eth_account.Account.set_key_backend` as well."""
KEYS = KeyAPI(BACKEND)


@lru_cache(maxsize=64)
def private_key(secret: bytes) -> PrivateKey:
    """Return the key of 32 bytes, with its public key. Raises ValueError for one outside of the group."""
    try:
        return PrivateKey(secret, backend=BACKEND)
    except ValidationError as error:
        raise ValueError(f"not a private key: {error}") from None
