"""Noise as libp2p uses it: a handshake, then the byte stream as encrypted frames. Sans-I/O.

Each end proves its peer id by signing its static noise key, and may offer stream muxers, so that none need be
negotiated afterwards. Source: https://github.com/libp2p/specs/blob/master/noise/README.md"""

from collections.abc import Sequence
from typing import NamedTuple

from rollup_node.stages.p2p.encoding import protobuf
from rollup_node.stages.p2p.identity import signatures
from rollup_node.stages.p2p.identity.peer_id import (
    IdentityError,
    NetworkIdentity,
    PeerId,
    decode_public_key,
    peer_id_text,
)
from rollup_node.stages.p2p.transport.noise_handshake import (
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
        """Encrypts bytes into frames; returns the pieces to send, in order."""
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
    if not signatures.verify(key, _SIGNATURE_PREFIX + static, signature):
        raise NoiseError("the remote end does not prove its identity")
    if expected_peer is not None and key.peer_id != expected_peer:
        raise NoiseError(f"the remote end is {peer_id_text(key.peer_id)}, not {peer_id_text(expected_peer)}")
    return key.peer_id, tuple(name.decode(errors="replace") for name in offered)
