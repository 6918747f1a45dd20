"""Noise as libp2p uses it: in the handshake each end proves its peer id by signing its noise key, and may name stream
muxers so that none need be negotiated afterwards; then a byte stream is cut into sealed messages. Sans-I/O."""

from collections.abc import Sequence
from typing import NamedTuple

from rollup_node.stages.p2p.encoding import protobuf
from rollup_node.stages.p2p.identity.peer_id import (
    IdentityError,
    NetworkIdentity,
    PeerId,
    PublicKey,
    decode_public_key,
    peer_id_text,
)
from rollup_node.stages.p2p.security.noise_handshake import (
    MAX_MESSAGE_BYTES,
    TAG_BYTES,
    CipherState,
    HandshakeState,
    NoiseError,
    NoiseKeys,
)

PROTOCOL = "/noise"
MAX_PLAINTEXT_BYTES = MAX_MESSAGE_BYTES - TAG_BYTES
_SIGNATURE_PREFIX = b"noise-libp2p-static-key:"
_MAX_PAYLOAD_BYTES = 4096
_MAX_MUXERS = 32
_KEY_FIELD, _SIGNATURE_FIELD, _EXTENSIONS_FIELD, _MUXERS_FIELD = 1, 2, 4, 2


class HandshakeResult(NamedTuple):
    """The outcome of a handshake: the other end, the muxers it named, and the byte stream."""

    peer: PeerId
    public_key: PublicKey
    muxers: tuple[str, ...]
    session: "SecureSession"


class NoiseHandshake:
    """One side of the handshake; the outcome stands in `secured`. `expected` is the peer that was dialled, `muxers`
    are ours in order of preference (none: the early negotiation is not offered)."""

    def __init__(
        self,
        identity: NetworkIdentity,
        keys: NoiseKeys,
        *,
        initiator: bool,
        muxers: Sequence[str] = (),
        expected: PeerId | None = None,
    ) -> None:
        self.result: HandshakeResult | None = None
        self._noise = HandshakeState(keys, initiator=initiator)
        self._payload = _encode_payload(identity, self._noise.static_key, muxers)
        self._expected_peer = expected

    def first_message(self) -> bytes:
        """The initiator's first message."""
        return self._noise.write_message(b"")

    def receive_message(self, message: bytes) -> bytes | None:
        """Takes a message of the other end; our answer, if there is one. NoiseError for anything wrong."""
        payload = self._noise.read_message(message)
        proof = None
        if static := self._noise.remote_static_key:
            proof = _verify_payload(payload, static, self._expected_peer)
        answer = self._noise.write_message(self._payload) if self._noise.is_my_turn else None
        if proof is not None and self._noise.is_finished:
            self.result = HandshakeResult(*proof, SecureSession(*self._noise.split()))
        return answer


class SecureSession:
    """The encrypted byte stream: messages of at most 65,535 bytes, each with its length before it."""

    def __init__(self, sender: CipherState, receiver: CipherState) -> None:
        self._sender, self._receiver = sender, receiver
        self._frame_decoder = FrameDecoder()

    def encrypt(self, plain: bytes | bytearray | memoryview) -> list[bytes]:
        """The pieces to send, in order."""
        view = memoryview(plain)
        out = []
        for offset in range(0, len(view), MAX_PLAINTEXT_BYTES):
            sealed = self._sender.encrypt(view[offset : offset + MAX_PLAINTEXT_BYTES])
            out += [len(sealed).to_bytes(2, "big"), sealed]
        return out

    def receive_data(self, data: bytes) -> list[bytes]:
        """The plain bytes of all messages complete now; at most one message waits for its end."""
        return [self._receiver.decrypt(sealed) for sealed in self._frame_decoder.receive_data(data)]


class FrameDecoder:
    """Cuts a byte stream into messages by their two-byte lengths."""

    def __init__(self) -> None:
        self._rest = b""

    def take_trailing_data(self) -> bytes:
        """The bytes after the last message given out, once."""
        rest, self._rest = self._rest, b""
        return rest

    def receive_data(self, data: bytes, most: int | None = None) -> list[bytes]:
        """The messages complete now, at most `most` of them."""
        buffer = self._rest + data if self._rest else data
        found: list[bytes] = []
        offset = 0
        while len(buffer) - offset >= 2 and (most is None or len(found) < most):
            end = offset + 2 + int.from_bytes(buffer[offset : offset + 2], "big")
            if end > len(buffer):
                break
            found.append(buffer[offset + 2 : end])
            offset = end
        self._rest = buffer[offset:]
        return found


def encode_frame(message: bytes) -> bytes:
    """A handshake message with its length."""
    return len(message).to_bytes(2, "big") + message


def _encode_payload(identity: NetworkIdentity, static: bytes, muxers: Sequence[str]) -> bytes:
    out = protobuf.bytes_field(_KEY_FIELD, identity.public_key.encode())
    out += protobuf.bytes_field(_SIGNATURE_FIELD, identity.sign(_SIGNATURE_PREFIX + static))
    if muxers:
        out += protobuf.bytes_field(
            _EXTENSIONS_FIELD, b"".join(protobuf.bytes_field(_MUXERS_FIELD, name) for name in muxers)
        )
    return out


def _verify_payload(
    payload: bytes, static: bytes, expected: PeerId | None
) -> tuple[PeerId, PublicKey, tuple[str, ...]]:
    """Peer, key and muxers of the other end; NoiseError unless it proves to own the noise key `static`."""
    if len(payload) > _MAX_PAYLOAD_BYTES:
        raise NoiseError(f"handshake payload of {len(payload)} bytes")
    try:
        fields = protobuf.parse(payload, max_fields=64)
        signature = fields.bytes_value(_SIGNATURE_FIELD) or b""
        named = protobuf.parse(fields.bytes_value(_EXTENSIONS_FIELD) or b"", _MAX_MUXERS).repeated_bytes(_MUXERS_FIELD)
        key = decode_public_key(fields.bytes_value(_KEY_FIELD) or b"")
    except (protobuf.ProtobufError, IdentityError) as error:
        raise NoiseError(f"handshake payload: {error}") from None
    if not key.verify(_SIGNATURE_PREFIX + static, signature):
        raise NoiseError("the other end does not prove its identity")
    if expected is not None and key.peer_id != expected:
        raise NoiseError(f"the other end is {peer_id_text(key.peer_id)}, not {peer_id_text(expected)}")
    return key.peer_id, key, tuple(name.decode(errors="replace") for name in named)
