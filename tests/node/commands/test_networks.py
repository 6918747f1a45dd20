"""The list of built-in networks [CMD13]."""

import json

import pytest

from rollup_node.node.commands.networks import main
from rollup_node.node.setup.networks import network_names, registry_version


def test_a_line_for_each_network(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    head, *lines, foot = capsys.readouterr().out.splitlines()
    assert head.split() == ["NETWORK", "L1", "CHAIN", "L2", "CHAIN", "NEWEST", "FORK", "END"]
    rows = {line.split()[0]: line.split() for line in lines}
    assert tuple(rows) == network_names()
    assert rows["op-sepolia"] == ["op-sepolia", "11155111", "11155420", "karst", "-"]
    assert rows["base-mainnet"][3:] == ["jovian", "block", "46600926,", "before", "Azul", "at", "2026-05-28T18:00:00Z"]
    assert registry_version().date in foot


def test_json_has_an_object_for_each_network(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--json"]) == 0
    found = {each["name"]: each for each in map(json.loads, capsys.readouterr().out.splitlines())}
    assert tuple(found) == network_names()
    assert found["base-sepolia"]["end"]["last_block"] == 40_469_855
    assert found["base-sepolia"]["end"]["source"].startswith("docs.base.org/")
    assert found["op-mainnet"] == {
        "name": "op-mainnet",
        "l1_chain": 1,
        "l2_chain": 10,
        "newest_fork": "karst",
        "newest_fork_time": found["op-mainnet"]["newest_fork_time"],
        "end": None,
    }
