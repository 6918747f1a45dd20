"""The encryption of discovery v5.1: AES-128-CTR masks headers, AES-128-GCM encrypts messages."""

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from rollup_node.stages.p2p.discv5.crypto import KEY_SIZE, NodeId

TAG_SIZE = 16


class HeaderMask:
    """The AES-CTR stream that masks and unmasks a header piece by piece."""

    def __init__(self, dest: NodeId, iv: bytes) -> None:
        self._stream = Cipher(algorithms.AES(dest[:KEY_SIZE]), modes.CTR(iv)).encryptor()

    def __call__(self, data: bytes) -> bytes:
        return self._stream.update(data)


def encrypt(key: bytes, nonce: bytes, plaintext: bytes, associated_data: bytes) -> bytes:
    """Encrypts a message; `associated_data` is authenticated with it."""
    return AESGCM(key).encrypt(nonce, plaintext, associated_data)


def decrypt(key: bytes, nonce: bytes, ciphertext: bytes, associated_data: bytes) -> bytes | None:
    """Decrypts a message; None when key, nonce or associated data do not match."""
    try:
        return AESGCM(key).decrypt(nonce, ciphertext, associated_data)
    except (InvalidTag, ValueError):
        return None
