"""Bootnodes as enode URLs and records."""

import re
from pathlib import Path

import pytest

from rollup_node.stages.p2p.addresses.ip import parse_ip
from rollup_node.stages.p2p.addresses.peer_id import node_id
from rollup_node.stages.p2p.config import P2pConfig
from rollup_node.stages.p2p.discv5.enode import PUBLIC_BOOTNODES, BootnodeError, Enode, choose_bootnodes, parse_bootnode
from rollup_node.stages.p2p.discv5.enr import Endpoint, Enr, OpStackEntry
from rollup_node.stages.protocol import secp256k1
from tests.support.p2p.discv5_nodes import secret_of

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
    assert contact.node_id == node_id(secp256k1.public_key(secret_of("enode")))


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


ROOT = Path(__file__).parents[4]
MODULE = Path("stages/p2p/discv5/enode.py")
NAMES = re.compile(r"PUBLIC_BOOTNODES|choose_bootnodes|discv5[./]bootnodes|discv5 import bootnodes")
COMMANDS = [Path("tools/commands/config.py")]
"""The command that shows what the node would use."""


def test_public_bootnodes_parse() -> None:
    result = [parse_bootnode(text) for text in PUBLIC_BOOTNODES]
    assert len(result) == 13
    records = [record for record in result if isinstance(record, Enr)]
    assert [record.opstack for record in records] == [OpStackEntry(8453, 0)] * 5
    assert all(record.udp(4) is not None for record in records)
    named = [enode.host for enode in result if isinstance(enode, Enode) and enode.address is None]
    assert named == ["bootnode.conduit.xyz"]


@pytest.mark.parametrize("network", [None, "", "op-sepolia"])
@pytest.mark.parametrize("rollup_config", [None, "", "rollup.json"])
def test_public_bootnodes_are_for_built_in_networks_only(network: str | None, rollup_config: str | None) -> None:
    is_built_in = network == "op-sepolia" and not rollup_config
    expected = PUBLIC_BOOTNODES if is_built_in else ()
    assert choose_bootnodes((), network=network, rollup_config=rollup_config) == expected
    assert choose_bootnodes(("enr:given",), network=network, rollup_config=rollup_config) == ("enr:given",)


def test_the_stage_adds_no_bootnodes() -> None:
    assert P2pConfig.__struct_defaults__[P2pConfig.__struct_fields__.index("bootnodes") - 1] == ()
    assert not [path for path in _using("stages") if path != MODULE]


def test_no_test_or_tool_uses_the_public_bootnodes() -> None:
    assert _using("tools", "ipc") == COMMANDS
    assert _using("tests") == [Path(__file__).relative_to(ROOT)]


@pytest.mark.parametrize("folder", ["tests", "tools"])
def test_no_test_or_tool_has_an_address_of_a_public_bootnode(folder: str) -> None:
    hosts = {part.rpartition("@")[2].partition(":")[0] for part in PUBLIC_BOOTNODES if "@" in part}
    own = Path(__file__).relative_to(ROOT)
    matches = [path for path in _sources(folder) if any(host in (ROOT / path).read_text() for host in hosts)]
    assert [path for path in matches if path != own] == []


def _sources(folder: str) -> list[Path]:
    return sorted(path.relative_to(ROOT) for path in (ROOT / folder).rglob("*.py"))


def _using(*folders: str) -> list[Path]:
    return [path for folder in folders for path in _sources(folder) if NAMES.search((ROOT / path).read_text())]
