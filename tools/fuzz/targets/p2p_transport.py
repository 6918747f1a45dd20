"""What a peer sends before and beside gossip: negotiation, handshake, multiplexing, identify, addresses and keys."""

from collections.abc import Callable, Iterator

from rollup_node.stages.p2p.addresses.multiaddr import MultiaddrError, decode_multiaddr, parse_multiaddr
from rollup_node.stages.p2p.addresses.peer_id import (
    IdentityError,
    NetworkIdentity,
    decode_public_key,
    parse_peer_id,
    peer_id_text,
    validate_peer_id,
)
from rollup_node.stages.p2p.encoding import protobuf, varint
from rollup_node.stages.p2p.encoding.multistream import HEADER, Initiator, MultistreamError, Responder, encode_line
from rollup_node.stages.p2p.host import identify
from rollup_node.stages.p2p.transport.noise import FrameDecoder, NoiseError, NoiseHandshake, NoiseKeys, encode_frame
from rollup_node.stages.p2p.transport.upgrader import UPGRADE_ERRORS, Upgrader
from rollup_node.stages.p2p.transport.yamux import YamuxError, YamuxSession
from rollup_node.tools.fuzz.targets.target import FuzzTarget, one_of

OURS = NetworkIdentity(b"\x01" * 32)
KEYS = NoiseKeys(b"\x03" * 32, b"\x04" * 32)
HERE = parse_multiaddr("/ip4/192.0.2.1/tcp/9222").with_peer_id(OURS.peer_id)
NAMES = tuple(f"/protocol/{number}" for number in range(3))
PIECES = 3
"""In so many pieces a stream of bytes is received."""


def _pieces(data: bytes) -> Iterator[bytes]:
    """Return the bytes of a stream, split at places that depend on their number."""
    step = max(1, (len(data) + len(data) % 7) // PIECES)
    return (data[at : at + step] for at in range(0, len(data), step))


def _in_pieces(receive: Callable[[bytes], object], data: bytes) -> None:
    for piece in _pieces(data):
        receive(piece)


def multistream(data: bytes) -> object:
    """Both sides of a negotiation."""
    responder = Responder(lambda name: name in NAMES)
    _in_pieces(responder.receive_data, data)
    _in_pieces(Initiator([*NAMES]).receive_data, data)
    return len(responder.data_to_send()) > 40


def noise(data: bytes) -> object:
    """Handshake messages to a responder."""
    handshake = NoiseHandshake(OURS, KEYS, initiator=False)
    parts = FrameDecoder().receive_data(data)
    for part in parts[:3]:
        handshake.receive_message(part)
    return len(parts)


def upgrade(data: bytes) -> None:
    """All that a stranger sends until a connection is upgraded."""
    _in_pieces(Upgrader(OURS, KEYS, initiator=False).receive_data, data)


def yamux(data: bytes) -> object:
    """Frames of a session, to the side that the number of bytes chooses."""
    session, events = YamuxSession(initiator=not len(data) & 1), 0
    for piece in _pieces(data):
        events += len(session.receive_data(piece))
    return min(events, 9)


def identify_message(data: bytes) -> object:
    """Return an identify message."""
    result = identify.decode(data)
    return len(result.protocols)


def public_key(data: bytes) -> None:
    """Parse a public key: what is read encodes to a key that is read as the same."""
    result = decode_public_key(data)
    assert decode_public_key(result.encode()) == result


def peer_id(data: bytes) -> object:
    """Return a peer id in bytes, and as a text."""
    try:
        assert parse_peer_id(peer_id_text(validate_peer_id(data))) == data
        return len(data)
    except IdentityError:
        result = parse_peer_id(data.decode("latin-1"))
        assert parse_peer_id(peer_id_text(result)) == result
        return "text"


def multiaddr(data: bytes) -> None:
    """Parse an address in bytes: what is read encodes to an address that is read as the same, and so does its text."""
    result = decode_multiaddr(data)
    assert decode_multiaddr(result.encode()) == result
    assert parse_multiaddr(str(result)) == result


def multiaddr_text(data: bytes) -> None:
    """Parse an address as a text, as operators and RPC clients give it."""
    multiaddr = parse_multiaddr(data.decode("utf-8", "replace"))
    assert decode_multiaddr(multiaddr.encode()) == multiaddr


def protobuf_fields(data: bytes) -> object:
    """Any protobuf message."""
    return type(protobuf.parse(data)).__name__


def number(data: bytes) -> object:
    """Return a number in base 128, in the strict form and in that of protobuf.

    The strict form encodes to the same bytes."""
    protobuf = varint.decode_protobuf(data)
    strict = varint.decode(data)
    assert strict is None or (strict == protobuf and varint.encode(strict[0]) == data[: strict[1]])
    return strict is None


LINES = encode_line(HEADER) + encode_line(NAMES[0]) + encode_line("na") + encode_line("ls")
NOISE_LINES = encode_line(HEADER) + encode_line("/noise")
FIRST = encode_frame(NoiseHandshake(OURS, KEYS, initiator=True).first_message())
HELLO = identify.encode(OURS.public_key.encode(), [HERE, HERE], [*NAMES], HERE, "optimism")
YAMUX_FRAMES = bytes.fromhex(
    "000100010000000100000000"
    "000000000000000100000003616263"
    "000200010000000000000007"
    "000100040000000100000000"
    "000300000000000000000000"
)
PEER = "P2P peer"
TARGETS = {
    "multistream": FuzzTarget(PEER, multistream, one_of([LINES, NOISE_LINES]), (MultistreamError,)),
    "noise": FuzzTarget(PEER, noise, one_of([FIRST, 2 * FIRST]), (NoiseError,)),
    "upgrade": FuzzTarget(PEER, upgrade, one_of([NOISE_LINES + FIRST]), UPGRADE_ERRORS),
    "yamux": FuzzTarget(PEER, yamux, one_of([YAMUX_FRAMES]), (YamuxError,)),
    "identify": FuzzTarget(PEER, identify_message, one_of([HELLO]), (identify.IdentifyError,)),
    "public-key": FuzzTarget(PEER, public_key, one_of([OURS.public_key.encode()]), (IdentityError,)),
    "peer-id": FuzzTarget(PEER, peer_id, one_of([OURS.peer_id, peer_id_text(OURS.peer_id).encode()]), (IdentityError,)),
    "multiaddr": FuzzTarget(PEER, multiaddr, one_of([HERE.encode()]), (MultiaddrError,)),
    "multiaddr-text": FuzzTarget(
        "RPC client", multiaddr_text, one_of([str(HERE).encode(), b"/dns4/example.org/tcp/1"]), (MultiaddrError,)
    ),
    "protobuf": FuzzTarget(PEER, protobuf_fields, one_of([HELLO]), (protobuf.ProtobufError,)),
    "varint": FuzzTarget(
        PEER, number, one_of([varint.encode(item) for item in (5, 1 << 40, (1 << 63) - 1)]), (varint.VarintError,)
    ),
}
"""The targets by name."""
