"""Public keys and the peer ids derived from them.

This node's key is secp256k1; peers may have any of libp2p's key types [NET1].
Source: https://github.com/libp2p/specs/blob/master/peer-ids/peer-ids.md"""

import base64
import hashlib
from typing import NamedTuple

from rollup_node.stages.p2p.encoding import protobuf
from rollup_node.stages.protocol import secp256k1
from rollup_node.stages.protocol.keccak import keccak256

PeerId = bytes
"""A multihash: the serialized public key itself (identity) when it is short, else its SHA-256."""

NodeId = bytes
"""keccak-256 of the uncompressed point of a node's key."""

RSA, ED25519, SECP256K1, ECDSA = range(4)
_MAX_KEY_BYTES = 2048
_MAX_INLINE_KEY_BYTES = 42
_IDENTITY, _SHA256 = 0x00, 0x12
_CID_VERSION, _LIBP2P_KEY = 0x01, 0x72
_MAX_TEXT_CHARACTERS = 128
_ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_VALUES = {letter: value for value, letter in enumerate(_ALPHABET)}


class IdentityError(ValueError):
    """A key or peer id is malformed."""


class PublicKey(NamedTuple):
    """A libp2p public key: `kind` is RSA, ED25519, SECP256K1 or ECDSA, `data` the key as that type has it."""

    kind: int
    data: bytes

    def encode(self) -> bytes:
        """Return the protobuf form, which noise, identify and peer ids use."""
        return protobuf.varint_field(1, self.kind) + protobuf.bytes_field(2, self.data)

    @property
    def peer_id(self) -> PeerId:
        raw = self.encode()
        if len(raw) <= _MAX_INLINE_KEY_BYTES:
            return bytes((_IDENTITY, len(raw))) + raw
        return bytes((_SHA256, 32)) + hashlib.sha256(raw).digest()


def secp256k1_public_key(point: bytes) -> PublicKey:
    """Return the public key of a curve point of 33 or 65 bytes. Raises IdentityError when it is not on the curve."""
    try:
        return PublicKey(SECP256K1, secp256k1.convert_point(point))
    except ValueError:
        raise IdentityError("the public key is not a point of secp256k1 in 33 or 65 bytes") from None


def decode_public_key(raw: bytes) -> PublicKey:
    """Decode the protobuf form. Raises IdentityError when it is malformed or of an unknown type."""
    if len(raw) > _MAX_KEY_BYTES:
        raise IdentityError(f"public key of {len(raw)} bytes")
    try:
        fields = protobuf.parse(raw, max_fields=4)
        kind, data = fields.varint(1), fields.bytes_value(2)
    except protobuf.ProtobufError as error:
        raise IdentityError(f"public key: {error}") from None
    if kind is None or data is None or kind not in (RSA, ED25519, SECP256K1, ECDSA):
        raise IdentityError(f"public key of type {kind}")
    return PublicKey(kind, data)


def extract_public_key(peer: PeerId) -> PublicKey | None:
    """Return the key that a peer id embeds; None when it holds only a hash."""
    if peer[:1] != bytes((_IDENTITY,)):
        return None
    try:
        return decode_public_key(peer[2:])
    except IdentityError:
        return None


def node_id(point: bytes) -> NodeId:
    """Return the discv5 node id of a secp256k1 key. Raises ValueError when it is not on the curve."""
    return keccak256(secp256k1.convert_point(point, compressed=False)[1:])


class NetworkIdentity:
    """This node's key pair and peer id. Raises IdentityError for a secret that is no secp256k1 key [NET1]."""

    def __init__(self, secret: bytes) -> None:
        try:
            self.public_key = PublicKey(SECP256K1, secp256k1.public_key(secret))
        except ValueError:
            raise IdentityError("the private key is not a number of 32 bytes within the group of secp256k1") from None
        self.secret = secret
        self.peer_id = self.public_key.peer_id

    def __repr__(self) -> str:
        return f"NetworkIdentity({peer_id_text(self.peer_id)})"

    def sign(self, message: bytes) -> bytes:
        """Sign the SHA-256 of `message`; the signature is DER."""
        return secp256k1.sign_der(hashlib.sha256(message).digest(), self.secret)


def short_peer_id(peer: PeerId) -> str:
    """Return the last ten characters of a peer id, for log lines."""
    return peer_id_text(peer)[-10:]


def parse_peer_id(text: str) -> PeerId:
    """Parse a peer id in base58 or as a CIDv1 in base32. Raises IdentityError."""
    if not text or len(text) > _MAX_TEXT_CHARACTERS:
        raise IdentityError(f"peer id of {len(text)} characters")
    try:
        return validate_peer_id(_from_cid(text) if text[0] == "b" else decode_base58(text))
    except ValueError as error:
        raise IdentityError(f"{text!r} is not a peer id such as 16Uiu2HA... (53 characters): {error}") from None


def validate_peer_id(peer: bytes) -> PeerId:
    """Return `peer` if it is a well-formed peer id. Raises IdentityError otherwise."""
    if len(peer) < 2 or peer[1] != len(peer) - 2:
        raise IdentityError("peer id has a wrong length")
    if peer[0] == _IDENTITY and len(peer) - 2 <= _MAX_INLINE_KEY_BYTES:
        decode_public_key(peer[2:])
        return peer
    if peer[0] == _SHA256 and len(peer) == 34:
        return peer
    raise IdentityError("peer id is neither an inline key nor a SHA-256 hash")


def _from_cid(text: str) -> bytes:
    raw = base64.b32decode(text[1:].upper() + "=" * (-(len(text) - 1) % 8))
    if raw[:2] != bytes((_CID_VERSION, _LIBP2P_KEY)):
        raise IdentityError("the CID is not of a libp2p key")
    return raw[2:]


def peer_id_text(peer: PeerId) -> str:
    """Return the usual text form of a peer id: base58 of the multihash, each leading zero byte a `1`."""
    number = int.from_bytes(peer, "big")
    digits = []
    while number:
        number, value = divmod(number, 58)
        digits.append(_ALPHABET[value])
    zeros = len(peer) - len(peer.lstrip(b"\0"))
    return "1" * zeros + "".join(reversed(digits))


def decode_base58(text: str) -> bytes:
    """Decode a base58 text. Raises ValueError when a character is not in the alphabet."""
    number = 0
    for character in text:
        if character not in _VALUES:
            raise ValueError(f"{character!r} is not a base58 character")
        number = number * 58 + _VALUES[character]
    zeros = len(text) - len(text.lstrip("1"))
    return b"\0" * zeros + number.to_bytes((number.bit_length() + 7) // 8, "big")
