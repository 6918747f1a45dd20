"""The binary forms are those of js-multiaddr."""

import pytest

from rollup_node.stages.p2p.addresses.multiaddr import (
    MultiaddrError,
    TcpAddress,
    decode_multiaddr,
    parse_multiaddr,
    tcp_multiaddr,
)
from rollup_node.stages.p2p.addresses.peer_id import parse_peer_id

PEER = "16Uiu2HAmEWQnHq2jLKJypwVnVoQeFCULuyop6atvq2eWjYSUjzNi"
KNOWN = {
    f"/ip4/127.0.0.1/tcp/9222/p2p/{PEER}": "047f000001062406a503270025080212"
    "21031b84c5567b126440995d3ed5aaba0565d71e1834604819ff9c17f5e9d5dd078f",
    "/ip6/2001:db8::1/udp/30303": "2920010db80000000000000000000000019102765f",
    "/dns4/example.org/tcp/443": "360b6578616d706c652e6f72670601bb",
    "/dns/localhost/tcp/1": "35096c6f63616c686f7374060001",
}


@pytest.mark.parametrize(("text", "raw"), KNOWN.items())
def test_known_encodings(text: str, raw: str) -> None:
    address = parse_multiaddr(text)
    assert str(address) == text
    assert address.encode().hex() == raw
    assert decode_multiaddr(bytes.fromhex(raw)) == address


def test_peer_id_and_tcp_address() -> None:
    address = parse_multiaddr(f"/ip4/192.0.2.7/tcp/9222/ipfs/{PEER}")
    assert address.peer_id == parse_peer_id(PEER)
    assert str(address.without_peer_id) == "/ip4/192.0.2.7/tcp/9222"
    for other in (address.without_peer_id, address):
        assert other.with_peer_id(parse_peer_id(PEER)) == address
    assert address.tcp == TcpAddress("192.0.2.7", 9222, False, None)
    assert address.without_peer_id.peer_id is None
    assert parse_multiaddr("/dns6/a.example/tcp/1").tcp == TcpAddress("a.example", 1, True, "ip6")
    assert parse_multiaddr("/ip4/192.0.2.7/udp/1").tcp is None
    assert parse_multiaddr(f"/p2p/{PEER}").tcp is None
    assert str(tcp_multiaddr("::1", 5)) == "/ip6/::1/tcp/5"


@pytest.mark.parametrize(
    "text",
    ["", "/", "ip4/1.2.3.4", "/ip4/1.2.3/tcp/1", "/ip4/1.2.3.4/tcp", "/ip4/1.2.3.4/tcp/65536", "/ip4/1.2.3.4/tcp/-1",
     "/ip4/1.2.3.4/tcp/x", "/ip4/1.2.3.4/udp/1/quic-v1", "/unix/a", "/p2p/abc", f"/p2p/{PEER}/tcp/1", "/dns//tcp/1",
     "/dns/" + "a" * 300, "/ip4/1.2.3.4/tcp/²", "/" + "x" * 2000, "/dns/a b/tcp/1", "/dns/ä.example/tcp/1"],
)  # fmt: skip
def test_malformed_texts_are_rejected(text: str) -> None:
    with pytest.raises(MultiaddrError):
        parse_multiaddr(text)


@pytest.mark.parametrize(
    "raw",
    ["", "04", "047f0000", "0601", "cc0301", "ff", "8080808080808080808080", "35ff", "3503ff00ff", "3501ff", "a50302ab",
     "a503220000", "3503612f62"],
)  # fmt: skip
def test_malformed_bytes_are_rejected(raw: str) -> None:
    with pytest.raises(MultiaddrError):
        decode_multiaddr(bytes.fromhex(raw))
