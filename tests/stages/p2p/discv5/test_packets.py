"""Packets: malformed and arbitrary bytes."""

import pytest

from rollup_node.stages.p2p.addresses.peer_id import node_id
from rollup_node.stages.p2p.discv5 import packets
from rollup_node.stages.p2p.discv5.packets import PacketError
from rollup_node.stages.protocol import secp256k1
from tests.support.p2p.discv5_nodes import secret_of

OWN, OTHER = (node_id(secp256k1.public_key(secret_of(name))) for name in ("own", "other"))
NONCE, IV = bytes(range(12)), bytes(range(16))
CIPHERTEXT = bytes(20)


def encoded(
    flag: int, auth: bytes, ciphertext: bytes = CIPHERTEXT, *, size: int | None = None, magic: bytes = b"discv5\0\1"
) -> bytes:
    length = len(auth) if size is None else size
    head = magic + bytes([flag]) + NONCE + length.to_bytes(2, "big") + auth
    return packets.PacketHeader(OWN, IV, IV + head).packet(ciphertext)


HANDSHAKE = OTHER + bytes((64, 33)) + bytes(64 + 33)


@pytest.mark.parametrize(
    "datagram",
    [
        b"",
        bytes(62),
        bytes(63),
        bytes(1281),
        encoded(0, OTHER, magic=b"discv5\0\2"),
        encoded(0, OTHER, magic=b"discv4\0\1"),
        encoded(0, OTHER, bytes(15)),
        encoded(0, OTHER[:-1]),
        encoded(0, OTHER + b"x"),
        encoded(0, OTHER, size=2000),
        encoded(1, bytes(24), b"x"),
        encoded(1, bytes(25), b""),
        encoded(2, HANDSHAKE[:-1]),
        encoded(2, OTHER + bytes((65, 33)) + bytes(98)),
        encoded(2, OTHER + bytes((64, 32)) + bytes(96)),
        encoded(2, OTHER),
        encoded(3, OTHER),
        encoded(0, OTHER, bytes(1280)),
    ],
    ids=range(18),
)
def test_malformed_packets_are_rejected(datagram: bytes) -> None:
    with pytest.raises(PacketError):
        packets.decode(datagram, OWN)
