"""The public bootnodes: valid records, used for the public networks only."""

import re
from pathlib import Path

import pytest

from rollup_node.stages.p2p.config import P2pConfig
from rollup_node.stages.p2p.discv5.bootnodes import PUBLIC_BOOTNODES, choose_bootnodes
from rollup_node.stages.p2p.discv5.enode import Enode, parse_bootnode
from rollup_node.stages.p2p.discv5.enr import Enr, OpStackEntry

ROOT = Path(__file__).parents[4]
MODULE = Path("stages/p2p/discv5/bootnodes.py")
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


def test_public_bootnodes_are_for_built_in_networks_only() -> None:
    assert choose_bootnodes((), network="op-sepolia", rollup_config=None) == PUBLIC_BOOTNODES
    assert choose_bootnodes((), network="op-sepolia", rollup_config="") == PUBLIC_BOOTNODES


@pytest.mark.parametrize("network", [None, "", "op-sepolia"])
def test_there_are_no_bootnodes_with_a_rollup_config(network: str | None) -> None:
    assert choose_bootnodes((), network=network, rollup_config="rollup.json") == ()


@pytest.mark.parametrize("network", [None, "op-sepolia"])
@pytest.mark.parametrize("rollup_config", [None, "rollup.json"])
def test_given_bootnodes_replace_the_public_ones(network: str | None, rollup_config: str | None) -> None:
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
