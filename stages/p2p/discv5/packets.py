"""The three kinds of packets: a header masked by AES-128-CTR and, except for WHOAREYOU, a message in AES-128-GCM."""

import hashlib
import hmac
from collections.abc import Callable
from typing import NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from rollup_node.stages.p2p.addresses.peer_id import NodeId
from rollup_node.stages.p2p.discv5.enr import PUBLIC_KEY_SIZE, SIGNATURE_SIZE

MIN_PACKET_BYTES = 63
MAX_PACKET_BYTES = 1280
IV_SIZE = 16
NONCE_SIZE = 12
TAG_SIZE = 16
KEY_SIZE = 16
RANDOM_MESSAGE_BYTES = 32
"""Random bytes in place of a message while there are no keys."""

_KEY_AGREEMENT_INFO = b"discovery v5 key agreement"
_ID_SIGNATURE_TEXT = b"discovery v5 identity proof"
_MAGIC = b"discv5" + b"\x00\x01"
_STATIC = len(_MAGIC) + 1 + NONCE_SIZE + 2
_MESSAGE, _WHOAREYOU, _HANDSHAKE = range(3)
_WHOAREYOU_DATA = 24
_HANDSHAKE_HEAD = 34


def derive_keys(shared: bytes, challenge_data: bytes, initiator: NodeId, recipient: NodeId) -> tuple[bytes, bytes]:
    """Return the initiator's and the recipient's write key of a session, from the shared point of both (ECDH)."""
    pseudorandom_key = hmac.digest(challenge_data, shared, "sha256")
    keys = hmac.digest(pseudorandom_key, _KEY_AGREEMENT_INFO + initiator + recipient + b"\x01", "sha256")
    return keys[:KEY_SIZE], keys[KEY_SIZE:]


def id_signature_hash(challenge_data: bytes, ephemeral_key: bytes, recipient: NodeId) -> bytes:
    """Return the hash that the initiator of a handshake signs (id-signature)."""
    return hashlib.sha256(_ID_SIGNATURE_TEXT + challenge_data + ephemeral_key + recipient).digest()


def header_mask(dest: NodeId, iv: bytes) -> Callable[[bytes], bytes]:
    """Return the AES-CTR stream that masks and unmasks a header piece by piece."""
    return Cipher(algorithms.AES(dest[:KEY_SIZE]), modes.CTR(iv)).encryptor().update


def encrypt(key: bytes, nonce: bytes, plaintext: bytes, associated_data: bytes) -> bytes:
    """Encrypt a message; `associated_data` is authenticated with it."""
    return AESGCM(key).encrypt(nonce, plaintext, associated_data)


def decrypt(key: bytes, nonce: bytes, ciphertext: bytes, associated_data: bytes) -> bytes | None:
    """Decrypt a message; None when key, nonce or associated data do not match."""
    try:
        return AESGCM(key).decrypt(nonce, ciphertext, associated_data)
    except (InvalidTag, ValueError):
        return None


class PacketError(ValueError):
    """Not a packet of discovery v5.1, or not for us."""


class MessagePacket(NamedTuple):
    """A message encrypted with a session's key; `authenticated_data` is the associated data of the encryption."""

    source: NodeId
    nonce: bytes
    ciphertext: bytes
    authenticated_data: bytes


class WhoAreYou(NamedTuple):
    """The reply to an undecryptable message; `enr_seq` is the version of our record that the sender has (0: none)."""

    nonce: bytes
    enr_seq: int
    challenge_data: bytes


class HandshakePacket(NamedTuple):
    """A message with the proof of identity and the ephemeral key of its session; `record` may be empty."""

    source: NodeId
    nonce: bytes
    id_signature: bytes
    ephemeral_public_key: bytes
    record: bytes
    ciphertext: bytes
    authenticated_data: bytes


Packet = MessagePacket | WhoAreYou | HandshakePacket


class PacketHeader(NamedTuple):
    """A header to send: `data` is its unmasked form after the masking IV."""

    dest: NodeId
    iv: bytes
    data: bytes

    def packet(self, ciphertext: bytes = b"") -> bytes:
        return self.iv + header_mask(self.dest, self.iv)(self.data[IV_SIZE:]) + ciphertext


def decode(datagram: bytes, own: NodeId) -> Packet:
    """Decode a datagram that was sent to us. Raises PacketError."""
    if not MIN_PACKET_BYTES <= len(datagram) <= MAX_PACKET_BYTES:
        raise PacketError(f"packet of {len(datagram)} bytes")
    unmask = header_mask(own, datagram[:IV_SIZE])
    start = IV_SIZE + _STATIC
    fixed = unmask(datagram[IV_SIZE:start])
    if not fixed.startswith(_MAGIC):
        raise PacketError("packet that is not of discovery v5.1 or not for this node")
    flag, nonce, size = fixed[8], fixed[9:21], int.from_bytes(fixed[21:], "big")
    auth = unmask(datagram[start : start + size])
    if len(auth) != size:
        raise PacketError("packet that ends within its header")
    data = datagram[:IV_SIZE] + fixed + auth
    ciphertext = datagram[start + size :]
    if flag == _WHOAREYOU:
        return _whoareyou(nonce, auth, data, ciphertext)
    if len(ciphertext) < TAG_SIZE:
        raise PacketError("packet without a message")
    if flag == _MESSAGE and size == len(own):
        return MessagePacket(auth, nonce, ciphertext, data)
    if flag == _HANDSHAKE and size >= _HANDSHAKE_HEAD:
        return _handshake(nonce, auth, data, ciphertext)
    raise PacketError(f"packet of type {flag} with {size} bytes of header")


def message_header(source: NodeId, dest: NodeId, nonce: bytes, iv: bytes) -> PacketHeader:
    return _header(_MESSAGE, dest, nonce, iv, source)


def whoareyou_header(dest: NodeId, nonce: bytes, id_nonce: bytes, enr_seq: int, iv: bytes) -> PacketHeader:
    """Return a whole WHOAREYOU packet, whose unmasked form is the challenge data."""
    return _header(_WHOAREYOU, dest, nonce, iv, id_nonce + enr_seq.to_bytes(8, "big"))


def handshake_header(
    source: NodeId, dest: NodeId, nonce: bytes, iv: bytes, *, signature: bytes, ephemeral_key: bytes, record: bytes
) -> PacketHeader:
    sizes = bytes((len(signature), len(ephemeral_key)))
    return _header(_HANDSHAKE, dest, nonce, iv, source + sizes + signature + ephemeral_key + record)


def _header(flag: int, dest: NodeId, nonce: bytes, iv: bytes, auth: bytes) -> PacketHeader:
    unmasked = _MAGIC + bytes((flag,)) + nonce + len(auth).to_bytes(2, "big") + auth
    return PacketHeader(dest, iv, iv + unmasked)


def _whoareyou(nonce: bytes, auth: bytes, data: bytes, ciphertext: bytes) -> WhoAreYou:
    if len(auth) != _WHOAREYOU_DATA or ciphertext:
        raise PacketError("WHOAREYOU of a wrong size")
    return WhoAreYou(nonce, int.from_bytes(auth[16:], "big"), data)


def _handshake(nonce: bytes, auth: bytes, data: bytes, ciphertext: bytes) -> HandshakePacket:
    if auth[32] != SIGNATURE_SIZE or auth[33] != PUBLIC_KEY_SIZE:
        raise PacketError("handshake of another identity scheme than v4")
    key_at = _HANDSHAKE_HEAD + SIGNATURE_SIZE
    record_at = key_at + PUBLIC_KEY_SIZE
    if len(auth) < record_at:
        raise PacketError("handshake that ends within its keys")
    return HandshakePacket(
        auth[:32], nonce, auth[_HANDSHAKE_HEAD:key_at], auth[key_at:record_at], auth[record_at:], ciphertext, data
    )
