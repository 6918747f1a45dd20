"""Packets, beside the published vectors: refusals, and any bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.p2p.discv5 import crypto, packets
from rollup_node.stages.p2p.discv5.packets import PacketError
from tests.support.discv5_nodes import secret_of

OWN, OTHER = (crypto.node_id(crypto.public_key(secret_of(name))) for name in ("own", "other"))
NONCE, IV = bytes(range(12)), bytes(range(16))
SEALED = bytes(20)


def made(
    flag: int, auth: bytes, sealed: bytes = SEALED, *, size: int | None = None, magic: bytes = b"discv5\0\1"
) -> bytes:
    length = len(auth) if size is None else size
    head = magic + bytes([flag]) + NONCE + length.to_bytes(2, "big") + auth
    return packets.PacketHeader(OWN, IV, IV + head).packet(sealed)


HANDSHAKE = OTHER + bytes((64, 33)) + bytes(64 + 33)


def test_the_kinds_of_packets_are_distinguished() -> None:
    assert isinstance(packets.decode(made(0, OTHER), OWN), packets.MessagePacket)
    assert isinstance(packets.decode(made(1, bytes(24), b""), OWN), packets.WhoAreYou)
    assert isinstance(packets.decode(made(2, HANDSHAKE + b"record"), OWN), packets.HandshakePacket)


@pytest.mark.parametrize(
    "datagram",
    [
        b"",
        bytes(62),
        bytes(63),
        bytes(1281),
        made(0, OTHER, magic=b"discv5\0\2"),
        made(0, OTHER, magic=b"discv4\0\1"),
        made(0, OTHER, bytes(15)),
        made(0, OTHER[:-1]),
        made(0, OTHER + b"x"),
        made(0, OTHER, size=2000),
        made(1, bytes(24), b"x"),
        made(1, bytes(25), b""),
        made(2, HANDSHAKE[:-1]),
        made(2, OTHER + bytes((65, 33)) + bytes(98)),
        made(2, OTHER + bytes((64, 32)) + bytes(96)),
        made(2, OTHER),
        made(3, OTHER),
        made(0, OTHER, bytes(1280)),
    ],
    ids=range(18),
)
def test_malformed_packets_are_rejected(datagram: bytes) -> None:
    with pytest.raises(PacketError):
        packets.decode(datagram, OWN)


def test_a_packet_for_another_node_is_rejected() -> None:
    with pytest.raises(PacketError, match="not for this node"):
        packets.decode(made(0, OTHER), OTHER)


@given(st.binary(max_size=1400))
def test_any_bytes_are_rejected(datagram: bytes) -> None:
    with pytest.raises(PacketError):
        packets.decode(datagram, OWN)


@given(st.integers(0, 255), st.binary(max_size=400), st.binary(max_size=100), st.integers(0, 500) | st.none())
def test_any_masked_bytes_decode_or_raise(flag: int, auth: bytes, sealed: bytes, size: int | None) -> None:
    try:
        packet = packets.decode(made(flag, auth, sealed, size=size), OWN)
    except PacketError:
        return
    assert flag == [packets.MessagePacket, packets.WhoAreYou, packets.HandshakePacket].index(type(packet))
