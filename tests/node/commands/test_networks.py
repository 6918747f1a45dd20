"""The list of built-in networks [CMD13]."""

import json

import msgspec
import pytest

from rollup_node.node.commands.networks import main
from rollup_node.node.options.errors import OptionError
from rollup_node.node.setup.networks import find_network, network_names, registry_version
from rollup_node.node.system.exit_codes import SetupError
from rollup_node.stages.protocol.config_json import parse_rollup_config


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


def test_the_rollup_config_of_a_network(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """[CMD5, CMD10]"""
    config = find_network("op-sepolia").config
    assert main(["dump-rollup-config", "--network", "op-sepolia"]) == 0
    text = capsys.readouterr().out
    assert text.startswith('{\n  "genesis": {\n    "l1": {') and parse_rollup_config(text.encode()).config == config
    monkeypatch.setenv("NODE_OVERRIDE_KARST", "4000000000")
    monkeypatch.setenv("NODE_L2_ENGINE_RPC", "not read")
    assert main(["dump-rollup-config", "--network=op-sepolia"]) == 0
    changed = msgspec.structs.replace(config, fork_times=config.fork_times | {"karst": 4_000_000_000})
    assert parse_rollup_config(capsys.readouterr().out.encode()).config.fork_times == changed.fork_times


def test_a_rollup_config_needs_the_name_of_a_network() -> None:
    with pytest.raises(SetupError, match="must specify a network name"):
        main(["dump-rollup-config"])
    with pytest.raises(OptionError, match="op-sepolia"):
        main(["dump-rollup-config", "--network=op-sepola"])
