"""Noise as libp2p uses it: the handshake XX with 25519, ChaChaPoly and SHA256, then encrypted frames. Sans-I/O.

Each end proves its peer id by signing its static noise key, and may offer stream muxers, so that none need be
negotiated afterwards. Source: https://noiseprotocol.org/noise.html and
https://github.com/libp2p/specs/blob/master/noise/README.md"""

import hashlib
import hmac
from collections.abc import Sequence
from typing import NamedTuple

from cryptography.exceptions import InvalidSignature, InvalidTag, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_der_public_key

from rollup_node.stages.p2p.addresses.peer_id import (
    ECDSA,
    ED25519,
    RSA,
    SECP256K1,
    IdentityError,
    NetworkIdentity,
    PeerId,
    PublicKey,
    decode_public_key,
    peer_id_text,
)
from rollup_node.stages.p2p.encoding import protobuf
from rollup_node.stages.protocol import secp256k1

MAX_MESSAGE_BYTES = 65535
KEY_BYTES, TAG_BYTES = 32, 16
_PROTOCOL_NAME = b"Noise_XX_25519_ChaChaPoly_SHA256"
_MAX_NONCE = (1 << 64) - 2
_MESSAGE_PATTERNS = (("e",), ("e", "ee", "s", "es"), ("s", "se"))
_MAX_SIGNATURE_BYTES = 1024


class NoiseError(ValueError):
    """A handshake or transport message is malformed or not authentic."""


class CipherState:
    """One direction of an encrypted connection; messages must come in order."""

    __slots__ = ("_cipher", "_nonce")

    def __init__(self, key: bytes) -> None:
        self._cipher = ChaCha20Poly1305(key)
        self._nonce = 0

    def encrypt(self, plain: bytes | memoryview, associated: bytes | None = None) -> bytes:
        """Encrypt the next message. Raises NoiseError when the nonces of the key are used up."""
        return self._cipher.encrypt(self._next_nonce(), plain, associated)

    def decrypt(self, ciphertext: bytes | memoryview, associated: bytes | None = None) -> bytes:
        """Decrypt the next message. Raises NoiseError when it is not authentic."""
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


PROTOCOL = "/noise"
MAX_PLAINTEXT_BYTES = MAX_MESSAGE_BYTES - TAG_BYTES
_SIGNATURE_PREFIX = b"noise-libp2p-static-key:"
_MAX_PAYLOAD_BYTES = 4096
_MAX_MUXERS = 32
_KEY_FIELD, _SIGNATURE_FIELD, _EXTENSIONS_FIELD, _MUXERS_FIELD = 1, 2, 4, 2


class HandshakeResult(NamedTuple):
    """The outcome of a handshake: the remote peer, the muxers that it offered, and the session."""

    peer: PeerId
    muxers: tuple[str, ...]
    session: "SecureSession"


class NoiseHandshake:
    """One side of the handshake, `expected_peer` None for anyone; `result` is set once it is complete."""

    def __init__(
        self,
        identity: NetworkIdentity,
        keys: NoiseKeys,
        *,
        initiator: bool,
        muxers: Sequence[str] = (),
        expected_peer: PeerId | None = None,
    ) -> None:
        self.result: HandshakeResult | None = None
        self._noise = HandshakeState(keys, initiator=initiator)
        self._payload = _encode_payload(identity, self._noise.static_key, muxers)
        self._expected_peer = expected_peer

    def first_message(self) -> bytes:
        return self._noise.write_message(b"")

    def receive_message(self, message: bytes) -> bytes | None:
        """Consume a message and return the reply, if one is due. Raises NoiseError, also for another peer."""
        payload = self._noise.read_message(message)
        identified = None
        if static := self._noise.remote_static_key:
            identified = _verify_payload(payload, static, self._expected_peer)
        reply = self._noise.write_message(self._payload) if self._noise.is_my_turn else None
        if identified is not None and self._noise.is_finished:
            self.result = HandshakeResult(*identified, SecureSession(*self._noise.split()))
        return reply


class SecureSession:
    """The encrypted byte stream: frames of at most 65,535 bytes, each with its length in two bytes before it."""

    def __init__(self, sender: CipherState, receiver: CipherState) -> None:
        self._sender, self._receiver = sender, receiver
        self._frame_decoder = FrameDecoder()

    def encrypt(self, plain: bytes | bytearray | memoryview) -> list[bytes]:
        """Encrypt bytes into frames; returns the pieces to send, in order."""
        view = memoryview(plain)
        out = []
        for offset in range(0, len(view), MAX_PLAINTEXT_BYTES):
            ciphertext = self._sender.encrypt(view[offset : offset + MAX_PLAINTEXT_BYTES])
            out += [len(ciphertext).to_bytes(2, "big"), ciphertext]
        return out

    def receive_data(self, data: bytes) -> list[bytes]:
        """Decrypt all complete frames and return the plaintext of each. Raises NoiseError."""
        return [self._receiver.decrypt(ciphertext) for ciphertext in self._frame_decoder.receive_data(data)]


class FrameDecoder:
    """Splits a byte stream into frames by their two-byte lengths; it buffers at most one incomplete frame."""

    def __init__(self) -> None:
        self._buffer = b""

    def take_trailing_data(self) -> bytes:
        """Return the bytes after the last frame and clears them."""
        trailing, self._buffer = self._buffer, b""
        return trailing

    def receive_data(self, data: bytes, max_frames: int | None = None) -> list[bytes]:
        """Return the complete frames, at most `max_frames` of them."""
        buffer = self._buffer + data if self._buffer else data
        frames: list[bytes] = []
        offset = 0
        while len(buffer) - offset >= 2 and (max_frames is None or len(frames) < max_frames):
            end = offset + 2 + int.from_bytes(buffer[offset : offset + 2], "big")
            if end > len(buffer):
                break
            frames.append(buffer[offset + 2 : end])
            offset = end
        self._buffer = buffer[offset:]
        return frames


def encode_frame(message: bytes) -> bytes:
    return len(message).to_bytes(2, "big") + message


def _encode_payload(identity: NetworkIdentity, static: bytes, muxers: Sequence[str]) -> bytes:
    out = protobuf.bytes_field(_KEY_FIELD, identity.public_key.encode())
    out += protobuf.bytes_field(_SIGNATURE_FIELD, identity.sign(_SIGNATURE_PREFIX + static))
    if muxers:
        out += protobuf.bytes_field(
            _EXTENSIONS_FIELD, b"".join(protobuf.bytes_field(_MUXERS_FIELD, name) for name in muxers)
        )
    return out


def _verify_payload(payload: bytes, static: bytes, expected_peer: PeerId | None) -> tuple[PeerId, tuple[str, ...]]:
    """Return peer and muxers of the remote end. Raises NoiseError unless it proves to own the static noise key."""
    if len(payload) > _MAX_PAYLOAD_BYTES:
        raise NoiseError(f"handshake payload of {len(payload)} bytes")
    try:
        fields = protobuf.parse(payload, max_fields=64)
        signature = fields.bytes_value(_SIGNATURE_FIELD) or b""
        offered = protobuf.parse(fields.bytes_value(_EXTENSIONS_FIELD) or b"", _MAX_MUXERS).repeated_bytes(
            _MUXERS_FIELD
        )
        key = decode_public_key(fields.bytes_value(_KEY_FIELD) or b"")
    except (protobuf.ProtobufError, IdentityError) as error:
        raise NoiseError(f"handshake payload: {error}") from None
    if not verify_signature(key, _SIGNATURE_PREFIX + static, signature):
        raise NoiseError("the remote end does not prove its identity")
    if expected_peer is not None and key.peer_id != expected_peer:
        raise NoiseError(f"the remote end is {peer_id_text(key.peer_id)}, not {peer_id_text(expected_peer)}")
    return key.peer_id, tuple(name.decode(errors="replace") for name in offered)


def verify_signature(key: PublicKey, message: bytes, signature: bytes) -> bool:
    """Whether `signature` is that of the key's owner of `message`; False also for a key that is unusable.

    Keys are of any of libp2p's types: https://github.com/libp2p/specs/blob/master/peer-ids/peer-ids.md"""
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
