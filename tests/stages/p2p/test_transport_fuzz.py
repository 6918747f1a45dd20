"""Two thousand damaged inputs for each parser of the transport: an answer or the parser's own error, nothing else."""

import random
from collections.abc import Callable

import pytest

from rollup_node.stages.p2p.addresses.multiaddr import MultiaddrError, decode_multiaddr, parse_multiaddr
from rollup_node.stages.p2p.encoding import protobuf
from rollup_node.stages.p2p.encoding.multistream import HEADER, Initiator, MultistreamError, Responder, encode_line
from rollup_node.stages.p2p.encoding.protobuf import ProtobufError
from rollup_node.stages.p2p.host import identify
from rollup_node.stages.p2p.host.identify import IdentifyError
from rollup_node.stages.p2p.identity.peer_id import (
    IdentityError,
    NetworkIdentity,
    decode_public_key,
    parse_peer_id,
    peer_id_text,
    validate_peer_id,
)
from rollup_node.stages.p2p.transport.noise import FrameDecoder, NoiseHandshake, encode_frame
from rollup_node.stages.p2p.transport.noise_handshake import NoiseError, NoiseKeys
from rollup_node.stages.p2p.transport.upgrader import UPGRADE_ERRORS, Upgrader
from rollup_node.stages.p2p.transport.yamux import YamuxError, YamuxSession
from tests.support.p2p.fuzz import damaged

ROUNDS = 2_000
OURS = NetworkIdentity(b"\x01" * 32)
KEYS = NoiseKeys(b"\x03" * 32, b"\x04" * 32)
HERE = parse_multiaddr("/ip4/192.0.2.1/tcp/9222").with_peer_id(OURS.peer_id)
LINES = encode_line(HEADER) + encode_line("/noise")
HELLO = identify.encode(OURS.public_key.encode(), [HERE], ["/a/1"], HERE, "optimism")
FRAMES = bytes.fromhex(
    "000100010000000100000000"
    + "000000000000000100000003616263"
    + "000200010000000000000007"
    + "000100040000000100000000"
)


def read_text(data: bytes) -> None:
    parse_multiaddr(data.decode("latin1"))


def read_peer_text(data: bytes) -> None:
    parse_peer_id(data.decode("latin1"))


def answer(data: bytes) -> None:
    Responder(lambda name: name == "/noise").receive_data(data)


def propose(data: bytes) -> None:
    Initiator(["/noise"]).receive_data(data)


def shake(data: bytes) -> None:
    for part in FrameDecoder().receive_data(data):
        responder().receive_message(part)


def multiplex(data: bytes) -> None:
    YamuxSession(initiator=False).receive_data(data)


def upgrade(data: bytes) -> None:
    Upgrader(OURS, KEYS, initiator=False).receive_data(data)


def responder() -> NoiseHandshake:
    return NoiseHandshake(OURS, KEYS, initiator=False)


FIRST = encode_frame(NoiseHandshake(OURS, KEYS, initiator=True).first_message())
PARSERS: list[tuple[Callable[[bytes], object], bytes, tuple[type[Exception], ...], int]] = [
    (protobuf.parse, HELLO, (ProtobufError,), ROUNDS),
    (identify.decode, HELLO, (IdentifyError,), ROUNDS),
    (decode_public_key, OURS.public_key.encode(), (IdentityError,), ROUNDS),
    (validate_peer_id, OURS.peer_id, (IdentityError,), ROUNDS),
    (read_peer_text, peer_id_text(OURS.peer_id).encode(), (IdentityError,), ROUNDS),
    (decode_multiaddr, HERE.encode(), (MultiaddrError,), ROUNDS),
    (read_text, str(HERE).encode(), (MultiaddrError,), ROUNDS),
    (answer, LINES, (MultistreamError,), ROUNDS),
    (propose, LINES, (MultistreamError,), ROUNDS),
    (multiplex, FRAMES, (YamuxError,), ROUNDS),
    (shake, FIRST, (NoiseError,), ROUNDS // 10),
    (upgrade, LINES + FIRST, UPGRADE_ERRORS, ROUNDS // 10),
]


@pytest.mark.parametrize(
    ("parse", "good", "errors", "rounds"), PARSERS, ids=lambda value: getattr(value, "__qualname__", "")
)
def test_damaged_inputs(
    parse: Callable[[bytes], object], good: bytes, errors: tuple[type[Exception], ...], rounds: int
) -> None:
    parse(good)
    chance = random.Random(20)
    refused = 0
    for _ in range(rounds):
        try:
            parse(damaged(chance, good))
        except errors:
            refused += 1
    assert refused > 0
