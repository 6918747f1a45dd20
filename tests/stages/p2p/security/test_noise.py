import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.p2p.encoding import protobuf
from rollup_node.stages.p2p.identity.peer_id import NetworkIdentity
from rollup_node.stages.p2p.security.noise import (
    LONGEST_PLAIN,
    FrameDecoder,
    HandshakeResult,
    NoiseHandshake,
    SecureSession,
    encode_frame,
)
from rollup_node.stages.p2p.security.noise_handshake import HandshakeState, NoiseError, NoiseKeys

OURS, THEIRS = NetworkIdentity(b"\x01" * 32), NetworkIdentity(b"\x02" * 32)
OUR_KEYS, THEIR_KEYS = NoiseKeys(b"\x03" * 32, b"\x04" * 32), NoiseKeys(b"\x05" * 32, b"\x06" * 32)
PREFIX = b"noise-libp2p-static-key:"


def shake(
    muxers: tuple[str, ...] = (), other: tuple[str, ...] = (), expected: bytes | None = None
) -> tuple[HandshakeResult, HandshakeResult]:
    ours = NoiseHandshake(OURS, OUR_KEYS, initiator=True, muxers=muxers, expected=expected)
    theirs = NoiseHandshake(THEIRS, THEIR_KEYS, initiator=False, muxers=other)
    second = theirs.receive(ours.start())
    assert second is not None
    third = ours.receive(second)
    assert third is not None and theirs.receive(third) is None
    assert ours.secured is not None and theirs.secured is not None
    return ours.secured, theirs.secured


def test_both_learn_who_the_other_is() -> None:
    ours, theirs = shake(("/yamux/1.0.0", "/mplex/6.7.0"), ("/yamux/1.0.0",), THEIRS.peer_id)
    assert (ours.peer, theirs.peer) == (THEIRS.peer_id, OURS.peer_id)
    assert (ours.key, theirs.key) == (THEIRS.public_key, OURS.public_key)
    assert (ours.muxers, theirs.muxers) == (("/yamux/1.0.0",), ("/yamux/1.0.0", "/mplex/6.7.0"))
    assert shake()[0].muxers == ()


def test_another_peer_than_dialled_is_refused() -> None:
    with pytest.raises(NoiseError, match="the other end is 16Uiu2"):
        shake(expected=OURS.peer_id)


def lying(payload: bytes) -> NoiseHandshake:
    """An initiator that has received a second message with this payload."""
    ours = NoiseHandshake(OURS, OUR_KEYS, initiator=True)
    theirs = HandshakeState(THEIR_KEYS, initiator=False)
    theirs.read(ours.start())
    ours.receive(theirs.write(payload))
    return ours


def proof(identity: NetworkIdentity, static: bytes) -> bytes:
    return protobuf.data(1, identity.public_key.encode()) + protobuf.data(2, identity.sign(PREFIX + static))


def test_a_proof_must_be_of_this_key_and_this_identity() -> None:
    static = HandshakeState(THEIR_KEYS, initiator=False).static
    secured = lying(proof(THEIRS, static)).secured
    assert secured is not None and secured.peer == THEIRS.peer_id
    foreign = protobuf.data(1, OURS.public_key.encode()) + protobuf.data(2, THEIRS.sign(PREFIX + static))
    for payload in (proof(THEIRS, bytes(32)), foreign, proof(THEIRS, static)[:-2], b"", b"\xff", bytes(5000)):
        with pytest.raises(NoiseError):
            lying(payload)


def test_too_many_muxers_are_refused() -> None:
    static = HandshakeState(THEIR_KEYS, initiator=False).static
    with pytest.raises(NoiseError, match="fields"):
        lying(proof(THEIRS, static) + protobuf.data(4, protobuf.data(2, "/a") * 40))


@given(st.binary(max_size=400))
def test_any_payload_is_taken_or_refused(payload: bytes) -> None:
    with pytest.raises(NoiseError):
        lying(payload)


def streams() -> tuple[SecureSession, SecureSession]:
    ours, theirs = shake()
    return ours.stream, theirs.stream


@given(st.lists(st.binary(max_size=3000), max_size=6), st.lists(st.integers(1, 5000), max_size=30))
def test_the_stream_may_be_cut_anywhere(writes: list[bytes], sizes: list[int]) -> None:
    ours, theirs = streams()
    raw = b"".join(b"".join(ours.seal(data)) for data in writes)
    found = b""
    for size in [*sizes, len(raw)]:
        found += b"".join(theirs.receive(raw[:size]))
        raw = raw[size:]
    assert found == b"".join(writes)


@pytest.mark.parametrize("size", [0, 1, LONGEST_PLAIN, LONGEST_PLAIN + 1, 3 * LONGEST_PLAIN + 7])
def test_long_data_goes_in_several_messages(size: int) -> None:
    ours, theirs = streams()
    data = bytes(range(256)) * (size // 256 + 1)
    pieces = ours.seal(data[:size])
    assert len(pieces) == 2 * -(-size // LONGEST_PLAIN)
    found = theirs.receive(b"".join(pieces))
    assert b"".join(found) == data[:size] and all(len(part) <= LONGEST_PLAIN for part in found)


def test_a_damaged_or_repeated_message_ends_the_stream() -> None:
    ours, theirs = streams()
    sealed = b"".join(ours.seal(b"data"))
    with pytest.raises(NoiseError):
        streams()[1].receive(sealed[:-1] + bytes([sealed[-1] ^ 1]))
    assert theirs.receive(sealed) == [b"data"]
    with pytest.raises(NoiseError):
        theirs.receive(sealed)
    with pytest.raises(NoiseError):
        theirs.receive(encode_frame(b""))


def test_the_unframer_gives_what_follows() -> None:
    unframer = FrameDecoder()
    assert unframer.receive(encode_frame(b"one") + encode_frame(b"two") + b"\x00", most=1) == [b"one"]
    assert unframer.receive(b"", most=1) == [b"two"]
    assert unframer.receive(b"\x05ab") == []
    assert unframer.take_rest() == b"\x00\x05ab"
    assert unframer.take_rest() == b""
