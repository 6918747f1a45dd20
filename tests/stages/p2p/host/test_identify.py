import pytest

from rollup_node.stages.p2p.addresses.multiaddr import parse_multiaddr
from rollup_node.stages.p2p.encoding import protobuf
from rollup_node.stages.p2p.host import identify
from rollup_node.stages.p2p.host.identify import IdentifyError, IdentifyMessage

HERE, THERE = parse_multiaddr("/ip4/192.0.2.1/tcp/9222"), parse_multiaddr("/ip6/2001:db8::1/tcp/1")


def test_round_trip() -> None:
    raw = identify.encode(b"key", [HERE, THERE], ["/a/1", "/b/1"], THERE, "optimism")
    assert identify.decode(raw) == IdentifyMessage(
        b"key", (HERE, THERE), ("/a/1", "/b/1"), THERE, "ipfs/0.1.0", "optimism"
    )


def test_missing_fields_are_none() -> None:
    assert identify.decode(b"") == IdentifyMessage(None, (), (), None, None, None)
    assert identify.encode(b"k", [], [], None, "a") == bytes.fromhex("0a016b2a0a697066732f302e312e30320161")


def test_lists_and_texts_are_bounded() -> None:
    raw = b"".join(
        protobuf.bytes_field(2, HERE.encode()) + protobuf.bytes_field(3, f"/p/{number}") for number in range(300)
    )
    result = identify.decode(raw + protobuf.bytes_field(6, "a\x1b[31m\n" + "b" * 5000))
    assert len(result.listen_addresses) == 64 and len(result.protocols) == 256
    assert (result.agent_version or "").startswith("a?[31m?b") and len(result.agent_version or "") == 256
    with pytest.raises(IdentifyError):
        identify.decode(protobuf.varint_field(9, 1) * 2000)
