"""Noise XX against a test vector of cacophony, and damaged messages. The libp2p Noise handshake and the
resulting session."""

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.p2p.addresses.peer_id import (
    ECDSA,
    IdentityError,
    NetworkIdentity,
    PublicKey,
    decode_public_key,
    peer_id_text,
)
from rollup_node.stages.p2p.encoding import protobuf
from rollup_node.stages.p2p.transport.noise import (
    MAX_PLAINTEXT_BYTES,
    CipherState,
    HandshakeResult,
    HandshakeState,
    NoiseError,
    NoiseHandshake,
    NoiseKeys,
    SecureSession,
    encode_frame,
    verify_signature,
)

PROLOGUE = "4a6f686e2047616c74"
INITIATOR = NoiseKeys(
    bytes.fromhex("e61ef9919cde45dd5f82166404bd08e38bceb5dfdfded0a34c8df7ed542214d1"),
    bytes.fromhex("893e28b9dc6ca8d611ab664754b8ceb7bac5117349a4439a6b0569da977c464a"),
)
RESPONDER = NoiseKeys(
    bytes.fromhex("4a3acbfdb163dec651dfa3194dece676d437029c62a408b4c5ea9114246e4893"),
    bytes.fromhex("bbdb4cdbd309f1a1f2e1456967fe288cadd6f712d65dc7b7793d5e63da6b375b"),
)
MESSAGES = [
    (
        "4c756477696720766f6e204d69736573",
        "ca35def5ae56cec33dc2036731ab14896bc4c75dbb07a61f879f8e3afa4c79444c756477696720766f6e204d69736573",
    ),
    (
        "4d757272617920526f746862617264",
        "95ebc60d2b1fa672c1f46a8aa265ef51bfe38e7ccb39ec5be34069f14480884381cbad1f276e038c48378ffce2b65285e08d6b68aaa3629a"
        "5a8639392490e5b9bd5269c2f1e4f488ed8831161f19b7815528f8982ffe09be9b5c412f8a0db50f8814c7194e83f23dbd8d162c9326ad",
    ),
    (
        "462e20412e20486179656b",
        "c7195ffacac1307ff99046f219750fc47693e23c3cb08b89c2af808b444850a80ae475b9df0f169ae80a89be0865b57f58c9fea0d4ec82a2"
        "86427402f113e4b6ae769a1d95941d49b25030",
    ),
    ("4361726c204d656e676572", "96763ed773f8e47bb3712f0e29b3060ffc956ffc146cee53d5e1df"),
    ("4a65616e2d426170746973746520536179", "3e40f15f6f3a46ae446b253bf8b1d9ffb6ed9b174d272328ff91a7e2e5c79c07f5"),
    (
        "457567656e2042f6686d20766f6e2042617765726b",
        "eb3f3515110702e047a6c9da4478b6ead94873c11c0f2d710ddb3f09fce024b3a58502ae3f",
    ),
]


def handshake_states(prologue: bytes = b"") -> tuple[HandshakeState, HandshakeState]:
    return (
        HandshakeState(INITIATOR, initiator=True, prologue=prologue),
        HandshakeState(RESPONDER, initiator=False, prologue=prologue),
    )


def test_the_published_vector() -> None:
    ours, theirs = handshake_states(bytes.fromhex(PROLOGUE))
    for number, (payload, ciphertext) in enumerate(MESSAGES[:3]):
        writer, reader = (ours, theirs) if number % 2 == 0 else (theirs, ours)
        assert writer.is_my_turn and not reader.is_my_turn
        assert writer.write_message(bytes.fromhex(payload)).hex() == ciphertext
        assert reader.read_message(bytes.fromhex(ciphertext)).hex() == payload
    assert ours.is_finished and theirs.is_finished
    assert (ours.remote_static_key, theirs.remote_static_key) == (theirs.static_key, ours.static_key)
    (send, receive), (their_send, their_receive) = ours.split(), theirs.split()
    for number, (payload, ciphertext) in enumerate(MESSAGES[3:]):
        sender, receiver = (their_send, receive) if number % 2 == 0 else (send, their_receive)
        assert sender.encrypt(bytes.fromhex(payload)).hex() == ciphertext
        assert receiver.decrypt(bytes.fromhex(ciphertext)).hex() == payload


@given(st.integers(0, 2), st.data())
def test_a_damaged_handshake_is_rejected(step: int, data: st.DataObject) -> None:
    """The first message is not encrypted: damage to it is detected in the second."""
    ours, theirs = handshake_states()
    with pytest.raises(NoiseError):
        for number in range(3):
            writer, reader = (ours, theirs) if number % 2 == 0 else (theirs, ours)
            message = bytearray(writer.write_message(b"payload"))
            if number == step:
                message[data.draw(st.integers(0, len(message) - 1))] ^= data.draw(st.integers(1, 127))
            assert reader.read_message(bytes(message)) == b"payload" or number == step == 0


@pytest.mark.parametrize("length", [0, 1, 31])
def test_short_messages_are_rejected(length: int) -> None:
    with pytest.raises(NoiseError):
        handshake_states()[1].read_message(bytes(length))


def test_a_low_order_key_is_rejected() -> None:
    _, theirs = handshake_states()
    theirs.read_message(bytes(32))
    with pytest.raises(NoiseError, match="unusable"):
        theirs.write_message(b"")


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


def sessions() -> tuple[SecureSession, SecureSession]:
    keys = b"\x07" * 32, b"\x08" * 32
    return (
        SecureSession(*map(CipherState, keys)),
        SecureSession(*map(CipherState, reversed(keys))),
    )


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


HELLO = b"hello"


def test_ecdsa_keys_verify() -> None:
    private = ec.generate_private_key(ec.SECP256R1())
    key = PublicKey(ECDSA, private.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))
    assert verify_signature(key, HELLO, private.sign(HELLO, ec.ECDSA(hashes.SHA256())))
    assert not verify_signature(key, b"other", private.sign(HELLO, ec.ECDSA(hashes.SHA256())))
    assert peer_id_text(key.peer_id).startswith("Qm")


@given(st.integers(0, 5), st.binary(max_size=120), st.binary(max_size=80))
def test_verify_never_raises(key_type: int, data: bytes, signature: bytes) -> None:
    try:
        key = decode_public_key(PublicKey(key_type, data).encode())
    except IdentityError:
        assert key_type > 3
        return
    assert verify_signature(key, HELLO, signature) is False
