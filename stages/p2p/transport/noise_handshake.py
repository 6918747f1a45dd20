"""The handshake pattern XX of the Noise framework with 25519, ChaChaPoly and SHA256. Sans-I/O.

After its three messages both ends know each other's static key and share two cipher states; payloads are opaque.
Source: https://noiseprotocol.org/noise.html"""

import hashlib
import hmac
from typing import NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

MAX_MESSAGE_BYTES = 65535
KEY_BYTES, TAG_BYTES = 32, 16
_PROTOCOL_NAME = b"Noise_XX_25519_ChaChaPoly_SHA256"
_MAX_NONCE = (1 << 64) - 2
_MESSAGE_PATTERNS = (("e",), ("e", "ee", "s", "es"), ("s", "se"))


class NoiseError(ValueError):
    """A handshake or transport message is malformed or not authentic."""


class CipherState:
    """One direction of an encrypted connection; messages must come in order."""

    __slots__ = ("_cipher", "_nonce")

    def __init__(self, key: bytes) -> None:
        self._cipher = ChaCha20Poly1305(key)
        self._nonce = 0

    def encrypt(self, plain: bytes | memoryview, associated: bytes | None = None) -> bytes:
        """Encrypts the next message. Raises NoiseError when the nonces of the key are used up."""
        return self._cipher.encrypt(self._next_nonce(), plain, associated)

    def decrypt(self, ciphertext: bytes | memoryview, associated: bytes | None = None) -> bytes:
        """Decrypts the next message. Raises NoiseError when it is not authentic."""
        if len(ciphertext) < TAG_BYTES:
            raise NoiseError(f"noise message of {len(ciphertext)} bytes")
        try:
            return self._cipher.decrypt(self._next_nonce(), ciphertext, associated)
        except InvalidTag:
            raise NoiseError("noise message is not authentic") from None

    def _next_nonce(self) -> bytes:
        if self._nonce > _MAX_NONCE:
            raise NoiseError("too many messages for one key")
        nonce = b"\0\0\0\0" + self._nonce.to_bytes(8, "little")
        self._nonce += 1
        return nonce


class NoiseKeys(NamedTuple):
    """The private keys of one handshake, 32 random bytes each."""

    static: bytes
    ephemeral: bytes


class HandshakeState:
    """One side of the pattern: the initiator writes the first and third message, the responder the second."""

    def __init__(self, keys: NoiseKeys, *, initiator: bool, prologue: bytes = b"") -> None:
        self._initiator = initiator
        self._own = {
            "e": X25519PrivateKey.from_private_bytes(keys.ephemeral),
            "s": X25519PrivateKey.from_private_bytes(keys.static),
        }
        self._remote: dict[str, bytes] = {}
        self._chaining_key = self._handshake_hash = _PROTOCOL_NAME
        self._cipher: CipherState | None = None
        self._message_index = 0
        self._mix_hash(prologue)

    @property
    def static_key(self) -> bytes:
        """Our static public key."""
        return _public_bytes(self._own["s"])

    @property
    def remote_static_key(self) -> bytes:
        """The remote static public key; empty until it has been received."""
        return self._remote.get("s", b"")

    @property
    def is_finished(self) -> bool:
        """Whether all three messages have been exchanged."""
        return self._message_index == len(_MESSAGE_PATTERNS)

    @property
    def is_my_turn(self) -> bool:
        """Whether we write the next message."""
        return not self.is_finished and (self._message_index % 2 == 0) == self._initiator

    def write_message(self, payload: bytes) -> bytes:
        """Write the next message. Raises NoiseError when it is not our turn."""
        if not self.is_my_turn:
            raise NoiseError("not our turn in the handshake")
        out = b""
        for token in _MESSAGE_PATTERNS[self._message_index]:
            if token == "e":
                raw = _public_bytes(self._own["e"])
                self._mix_hash(raw)
                out += raw
            elif token == "s":
                out += self._encrypt_and_hash(self.static_key)
            else:
                self._mix_key(token)
        self._message_index += 1
        return out + self._encrypt_and_hash(payload)

    def read_message(self, message: bytes) -> bytes:
        """Read the remote end's next message and return its payload. Raises NoiseError."""
        if self.is_my_turn or self.is_finished:
            raise NoiseError("a handshake message out of turn")
        rest = message
        for token in _MESSAGE_PATTERNS[self._message_index]:
            if len(token) == 2:
                self._mix_key(token)
                continue
            size = KEY_BYTES + (TAG_BYTES if self._cipher else 0)
            raw, rest = rest[:size], rest[size:]
            if len(raw) < size:
                raise NoiseError(f"handshake message of {len(message)} bytes")
            self._remote[token] = self._decrypt_and_hash(raw)
        self._message_index += 1
        return self._decrypt_and_hash(rest)

    def split(self) -> tuple[CipherState, CipherState]:
        """Our sending and our receiving cipher state, once the handshake is finished."""
        first, second = _hkdf(self._chaining_key, b"")
        sending, receiving = (first, second) if self._initiator else (second, first)
        return CipherState(sending), CipherState(receiving)

    def _mix_key(self, token: str) -> None:
        """Mix in a Diffie-Hellman result; the token names the initiator's key, then the responder's."""
        ours = 0 if self._initiator else 1
        own, remote = token[ours], token[1 - ours]
        try:
            # An all-zero result, which a low-order public key gives, raises ValueError.
            shared = self._own[own].exchange(X25519PublicKey.from_public_bytes(self._remote[remote]))
        except ValueError:
            raise NoiseError("the remote end sent a key that is unusable") from None
        self._chaining_key, key = _hkdf(self._chaining_key, shared)
        self._cipher = CipherState(key)

    def _mix_hash(self, data: bytes) -> None:
        self._handshake_hash = hashlib.sha256(self._handshake_hash + data).digest()

    def _encrypt_and_hash(self, plain: bytes) -> bytes:
        ciphertext = plain if self._cipher is None else self._cipher.encrypt(plain, self._handshake_hash)
        self._mix_hash(ciphertext)
        return ciphertext

    def _decrypt_and_hash(self, ciphertext: bytes) -> bytes:
        plain = ciphertext if self._cipher is None else self._cipher.decrypt(ciphertext, self._handshake_hash)
        self._mix_hash(ciphertext)
        return plain


def _public_bytes(key: X25519PrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)


def _hkdf(chaining_key: bytes, material: bytes) -> tuple[bytes, bytes]:
    base = hmac.digest(chaining_key, material, "sha256")
    first = hmac.digest(base, b"\x01", "sha256")
    return first, hmac.digest(base, first + b"\x02", "sha256")
