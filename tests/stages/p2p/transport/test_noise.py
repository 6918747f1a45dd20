"""The libp2p Noise handshake and the resulting session."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.p2p.encoding import protobuf
from rollup_node.stages.p2p.identity.peer_id import NetworkIdentity
from rollup_node.stages.p2p.transport.noise import (
    MAX_PLAINTEXT_BYTES,
    FrameDecoder,
    HandshakeResult,
    NoiseHandshake,
    SecureSession,
    encode_frame,
)
from rollup_node.stages.p2p.transport.noise_handshake import HandshakeState, NoiseError, NoiseKeys

OURS, THEIRS = NetworkIdentity(b"\x01" * 32), NetworkIdentity(b"\x02" * 32)
OUR_KEYS, THEIR_KEYS = NoiseKeys(b"\x03" * 32, b"\x04" * 32), NoiseKeys(b"\x05" * 32, b"\x06" * 32)
PREFIX = b"noise-libp2p-static-key:"


def handshake(
    muxers: tuple[str, ...] = (), other: tuple[str, ...] = (), expected: bytes | None = None
) -> tuple[HandshakeResult, HandshakeResult]:
    ours = NoiseHandshake(OURS, OUR_KEYS, initiator=True, muxers=muxers, expected_peer=expected)
    theirs = NoiseHandshake(THEIRS, THEIR_KEYS, initiator=False, muxers=other)
    second = theirs.receive_message(ours.first_message())
    assert second is not None
    third = ours.receive_message(second)
    assert third is not None and theirs.receive_message(third) is None
    assert ours.result is not None and theirs.result is not None
    return ours.result, theirs.result


def test_both_ends_learn_the_remote_peer() -> None:
    ours, theirs = handshake(("/yamux/1.0.0", "/mplex/6.7.0"), ("/yamux/1.0.0",), THEIRS.peer_id)
    assert (ours.peer, theirs.peer) == (THEIRS.peer_id, OURS.peer_id)
    assert (ours.muxers, theirs.muxers) == (("/yamux/1.0.0",), ("/yamux/1.0.0", "/mplex/6.7.0"))
    assert handshake()[0].muxers == ()


def test_an_unexpected_peer_is_rejected() -> None:
    with pytest.raises(NoiseError, match="the remote end is 16Uiu2"):
        handshake(expected=OURS.peer_id)


def receive_payload(payload: bytes) -> NoiseHandshake:
    """Return an initiator that receives a second message with this payload."""
    ours = NoiseHandshake(OURS, OUR_KEYS, initiator=True)
    theirs = HandshakeState(THEIR_KEYS, initiator=False)
    theirs.read_message(ours.first_message())
    ours.receive_message(theirs.write_message(payload))
    return ours


def handshake_payload(identity: NetworkIdentity, static: bytes) -> bytes:
    return protobuf.bytes_field(1, identity.public_key.encode()) + protobuf.bytes_field(
        2, identity.sign(PREFIX + static)
    )


def test_the_signature_must_be_of_this_key_and_identity() -> None:
    static = HandshakeState(THEIR_KEYS, initiator=False).static_key
    result = receive_payload(handshake_payload(THEIRS, static)).result
    assert result is not None and result.peer == THEIRS.peer_id
    other_key = protobuf.bytes_field(1, OURS.public_key.encode()) + protobuf.bytes_field(
        2, THEIRS.sign(PREFIX + static)
    )
    for payload in (
        handshake_payload(THEIRS, bytes(32)),
        other_key,
        handshake_payload(THEIRS, static)[:-2],
        b"",
        b"\xff",
        bytes(5000),
    ):
        with pytest.raises(NoiseError):
            receive_payload(payload)


def test_too_many_muxers_are_rejected() -> None:
    static = HandshakeState(THEIR_KEYS, initiator=False).static_key
    with pytest.raises(NoiseError, match="fields"):
        receive_payload(handshake_payload(THEIRS, static) + protobuf.bytes_field(4, protobuf.bytes_field(2, "/a") * 40))


@given(st.binary(max_size=400))
def test_any_payload_is_accepted_or_raises(payload: bytes) -> None:
    with pytest.raises(NoiseError):
        receive_payload(payload)


def sessions() -> tuple[SecureSession, SecureSession]:
    ours, theirs = handshake()
    return ours.session, theirs.session


@given(st.lists(st.binary(max_size=3000), max_size=6), st.lists(st.integers(1, 5000), max_size=15))
def test_the_stream_may_be_split_anywhere(writes: list[bytes], sizes: list[int]) -> None:
    ours, theirs = sessions()
    raw = b"".join(b"".join(ours.encrypt(data)) for data in writes)
    result = b""
    for size in [*sizes, len(raw)]:
        result += b"".join(theirs.receive_data(raw[:size]))
        raw = raw[size:]
    assert result == b"".join(writes)


@pytest.mark.parametrize("size", [0, 1, MAX_PLAINTEXT_BYTES, MAX_PLAINTEXT_BYTES + 1, 3 * MAX_PLAINTEXT_BYTES + 7])
def test_long_data_is_sent_in_several_frames(size: int) -> None:
    ours, theirs = sessions()
    data = bytes(range(256)) * (size // 256 + 1)
    pieces = ours.encrypt(data[:size])
    assert len(pieces) == 2 * -(-size // MAX_PLAINTEXT_BYTES)
    result = theirs.receive_data(b"".join(pieces))
    assert b"".join(result) == data[:size] and all(len(part) <= MAX_PLAINTEXT_BYTES for part in result)


def test_a_damaged_or_repeated_frame_raises() -> None:
    ours, theirs = sessions()
    sealed = b"".join(ours.encrypt(b"data"))
    with pytest.raises(NoiseError):
        sessions()[1].receive_data(sealed[:-1] + bytes([sealed[-1] ^ 1]))
    assert theirs.receive_data(sealed) == [b"data"]
    with pytest.raises(NoiseError):
        theirs.receive_data(sealed)
    with pytest.raises(NoiseError):
        theirs.receive_data(encode_frame(b""))


def test_the_frame_decoder_returns_trailing_data() -> None:
    decoder = FrameDecoder()
    assert decoder.receive_data(encode_frame(b"one") + encode_frame(b"two") + b"\x00", max_frames=1) == [b"one"]
    assert decoder.receive_data(b"", max_frames=1) == [b"two"]
    assert decoder.receive_data(b"\x05ab") == []
    assert decoder.take_trailing_data() == b"\x00\x05ab"
    assert decoder.take_trailing_data() == b""
