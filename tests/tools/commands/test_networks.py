"""The list of built-in networks [CMD13]."""

import json
import time

import pytest

from rollup_node.node.setup.networks import find_network, network_names, registry_version
from rollup_node.stages.protocol.config_json import parse_rollup_config
from tests.support.processes.cli import Cli


def test_a_line_for_each_network(cli: Cli) -> None:
    head, *lines, foot = cli.out("networks").splitlines()
    assert head.split() == ["NETWORK", "L1", "CHAIN", "L2", "CHAIN", "NEWEST", "FORK", "END"]
    rows = {line.split()[0]: line.split() for line in lines}
    assert tuple(rows) == network_names()
    assert rows["zora-sepolia"] == ["zora-sepolia", "11155111", "999999999", "karst", "-"]
    assert rows["base-mainnet"][3:] == ["jovian", "block", "53556126,", "before", "Denim", "at", "2026-11-05T18:00:00Z"]
    assert rows["mint-mainnet"][3:] == ["isthmus", "no", "longer", "in", "op-node", "1.21.0"]
    assert registry_version().checked in foot


def test_the_time_that_is_left_until_a_fork(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """[CMD13]"""
    start = find_network("op-sepolia").config.fork_times["lagoon"]
    for now, shown in (
        (start - 12 * 86_400 - 3_600, ["lagoon", "from", "2026-12-10T16:00:01Z,", "in", "12d1h", "-"]),
        (start, ["lagoon", "-"]),
    ):
        monkeypatch.setattr(time, "time", lambda now=now: float(now))
        (row,) = (line.split() for line in cli.out("networks").splitlines() if line.startswith("op-sepolia "))
        assert row[3:] == shown


def test_json_has_an_object_for_each_network(cli: Cli) -> None:
    result = {item["name"]: item for item in map(json.loads, cli.out("networks", "--json").splitlines())}
    assert tuple(result) == network_names()
    assert result["base-sepolia"]["end"]["last_block"] == 48_418_655
    assert result["base-sepolia"]["end"]["source"].startswith("docs.base.org/")
    assert result["op-mainnet"] == {
        "name": "op-mainnet",
        "l1_chain": 1,
        "l2_chain": 10,
        "newest_fork": "lagoon",
        "newest_fork_time": 1_799_683_201,
        "dependencies": [10, 130],
        "removed": None,
        "end": None,
    }


def test_the_rollup_config_of_a_network(monkeypatch: pytest.MonkeyPatch, cli: Cli) -> None:
    """[CMD5, CMD10]"""
    config = find_network("ink-sepolia").config
    text = cli.out("networks", "dump-rollup-config", "--network", "ink-sepolia")
    assert text.startswith('{\n  "genesis": {\n    "l1": {') and parse_rollup_config(text.encode()).config == config
    monkeypatch.setenv("NODE_OVERRIDE_LAGOON", "4000000000")
    monkeypatch.setenv("NODE_L2_ENGINE_RPC", "not read")
    changed = cli.out("networks", "dump-rollup-config", "--network=ink-sepolia")
    assert parse_rollup_config(changed.encode()).config.fork_times == config.fork_times | {"lagoon": 4_000_000_000}
