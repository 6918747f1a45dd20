"""Distances of node ids, and endpoints as text."""

from rollup_node.stages.p2p.addresses.ip import parse_ip
from rollup_node.stages.p2p.discv5.contact import Endpoint, log_distance, xor_distance


def test_distances() -> None:
    zero, one, top = bytes(32), bytes(31) + b"\1", b"\x80" + bytes(31)
    assert [log_distance(zero, other) for other in (zero, one, top)] == [0, 1, 256]
    assert xor_distance(one, top) == (1 << 255) + 1
    assert log_distance(one, top) == log_distance(top, one)


def test_endpoints_as_text() -> None:
    assert str(Endpoint(parse_ip("127.0.0.1"), 5)) == "127.0.0.1:5"
    assert str(Endpoint(parse_ip("::1"), 5)) == "[::1]:5"
