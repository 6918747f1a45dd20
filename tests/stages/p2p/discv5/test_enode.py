"""Bootnodes as enode URLs and records."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.p2p.addresses.ip import parse_ip
from rollup_node.stages.p2p.discv5 import crypto
from rollup_node.stages.p2p.discv5.enode import BootnodeError, Enode, parse_bootnode
from rollup_node.stages.p2p.discv5.enr import Endpoint
from rollup_node.stages.protocol import secp256k1
from tests.support.p2p.discv5_nodes import record_of, secret_of

KEY = secp256k1.public_key(secret_of("enode"), compressed=False)[1:].hex()


@pytest.mark.parametrize(
    ("rest", "host", "port"),
    [
        ("127.0.0.1:30305", "127.0.0.1", 30305),
        ("127.0.0.1:0?discport=30301", "127.0.0.1", 30301),
        ("127.0.0.1:1?discport=30301", "127.0.0.1", 30301),
        ("[::1]:9222", "::1", 9222),
        ("bootnode.example.org:9222", "bootnode.example.org", 9222),
    ],
)
def test_enode_urls(rest: str, host: str, port: int) -> None:
    bootnode = parse_bootnode(f" enode://{KEY}@{rest}\n")
    assert isinstance(bootnode, Enode)
    assert (bootnode.host, bootnode.port, bootnode.address is None) == (host, port, "example" in host)
    assert bootnode.public_key == secp256k1.convert_point(b"\x04" + bytes.fromhex(KEY))
    contact = bootnode.contact(parse_ip("127.0.0.9"))
    assert contact.endpoint == Endpoint(parse_ip("127.0.0.9"), port)
    assert contact.node_id == crypto.node_id(secp256k1.public_key(secret_of("enode")))


def test_a_record_is_a_bootnode() -> None:
    record = record_of("boot")
    assert parse_bootnode(record.text) == record


@pytest.mark.parametrize(
    "text",
    [
        "",
        "http://127.0.0.1",
        f"enode://{KEY[:-2]}@127.0.0.1:1",
        f"enode://{'00' * 64}@127.0.0.1:1",
        f"enode://{KEY}@127.0.0.1",
        f"enode://{KEY}@127.0.0.1:0",
        f"enode://{KEY}@127.0.0.1:70000",
        f"enode://{KEY}@127.0.0.1:1?discport=x",
        f"enode://{KEY}@127.0.0.1:1?discport=0",
        f"enode://{KEY}@:1",
        f"enode://{KEY}@a b:1",
        f"enode://{KEY}@-:1",
        f"enode://{KEY}@[::1:1",
        "enr:AAAA",
    ],
)
def test_malformed_bootnodes_are_rejected(text: str) -> None:
    with pytest.raises(BootnodeError, match=r"\(p2p.bootnodes\)"):
        parse_bootnode(text)


@given(st.text(max_size=80), st.sampled_from(["", "enr:", "enode://", f"enode://{KEY}@"]))
def test_any_text_parses_or_raises(text: str, start: str) -> None:
    try:
        parse_bootnode(start + text)
    except BootnodeError as error:
        assert "\n" not in str(error)
