"""`rollup-node config show`: values, origins, masked secrets."""

import json
import tomllib
from pathlib import Path

import pytest

from rollup_node.node.options.table import OPTIONS
from rollup_node.node.setup.networks import find_network
from rollup_node.stages.protocol.config_json import rollup_config_object
from tests.support.processes.cli import Cli

NEEDED = ("--network=op-sepolia", "--l2=http://user:hunter2@e:8551/hunter2?key=hunter2", "--l1.beacon=http://b")


def test_values_and_their_origins(tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "node.toml"
    file.write_text('"rpc.port" = 3\n')
    monkeypatch.setenv("OP_NODE_METRICS_PORT", "4")
    words = (*NEEDED, f"--config={file}", "--override.lagoon=9999999999", "--p2p.static=a", "--p2p.static=b")
    rows = cli.json("config", "show", "--json", *words)
    assert rows["rpc.port"] == {"value": "3", "origin": "file", "source": f"rpc.port in file {file}"}
    variable = "variable OP_NODE_METRICS_PORT (--metrics.port)"
    assert rows["metrics.port"] == {"value": "4", "origin": "variable", "source": variable}
    assert rows["network"] == {"value": "op-sepolia", "origin": "flag", "source": "flag --network"}
    assert rows["rpc.addr"] == {"value": "0.0.0.0", "origin": "default", "source": "default"}
    time = find_network("op-sepolia").config.fork_times["holocene"]
    assert rows["override.holocene"] == {"value": str(time), "origin": "network", "source": "network op-sepolia"}
    assert (rows["override.lagoon"]["value"], rows["override.lagoon"]["origin"]) == ("9999999999", "flag")
    assert rows["p2p.static"]["value"] == "a,b"
    assert rows["p2p.bootnodes"]["origin"] == "network" and rows["p2p.bootnodes"]["value"]
    assert [name for name in OPTIONS if name in rows] == list(rows), "in the order of the table"
    assert not [name for name, option in OPTIONS.items() if name not in rows and not option.hidden]


def test_a_line_for_each_option(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "rollup.json"
    config = find_network("op-sepolia").config
    file.write_text(json.dumps(rollup_config_object(config)))
    words = (f"--rollup.config={file}", *NEEDED[1:])
    lines = cli.out("config", "show", *words).splitlines()
    assert f"{'l1.beacon':36} flag      http://b" in lines
    assert f"{'rpc.port':36} default   9545" in lines
    assert f"{'override.lagoon':36} file      {config.fork_times['lagoon']}   (file {file})" in lines


def test_secrets_are_masked(cli: Cli) -> None:
    keys = (f"--p2p.sequencer.key={32 * '5a'}", "--l1.beacon-header=X-Key: hunter2", "--signer.header=a=hunter2")
    text = cli.out("config", "show", *NEEDED, "--l1=https://a/v3/hunter2,wss://hunter2@b", *keys)
    assert "hunter2" not in text and "5a5a" not in text
    assert "http://***@e:8551/***" in text and "https://a/***,wss://***@b" in text


def test_wrong_options_are_all_reported(cli: Cli) -> None:
    ended = cli("config", "show", "--rpc.port=x", "--jsno")
    first, *lines = ended.err.splitlines()
    assert (ended.code, first) == (1, "rollup-node: unknown flag --jsno; did you mean --json?")
    assert [line.split()[1] for line in lines] == ["invalid"], "what is missing may be what the wrong flag means"


def test_a_file_of_what_is_given(cli: Cli, tmp_path: Path) -> None:
    words = (*NEEDED, "--p2p.static=a", "--p2p.static=b", "--metrics.enabled", f"--p2p.sequencer.key={32 * '5a'}")
    text = cli.out("config", "show", "--toml", *words)
    assert tomllib.loads(text)["p2p.static"] == ["a", "b"] and "5a5a" not in text
    file = tmp_path / "node.toml"
    file.write_text(text)
    assert cli.json("config", "show", "--json", f"--config={file}")["metrics.enabled"]["value"] == "true"


def test_the_options_of_a_supernode(cli: Cli, tmp_path: Path) -> None:
    """[SNO2 to SNO4] Its own, those that its chains share, and those of each, with what it sets itself."""
    file = tmp_path / "supernode.toml"
    file.write_text('chains = [10, 130]\n[l1]\nvalue = "http://a"\nbeacon = "http://b"\n[vn.all]\nl2 = "http://c/key"')
    words = (f"--config={file}", f"--data-dir={tmp_path}", f"--vn.130.p2p.sequencer.key={32 * '5a'}")
    rows = cli.json("config", "show", "--json", *words)
    assert rows["chains"]["value"] == "10,130" and rows["rpc.port"] == {
        "value": "8545",
        "origin": "default",
        "source": "default",
    }
    assert rows["l1"]["value"] == "http://a" and "vn.10.l1" not in rows and "l2" not in rows
    assert rows["vn.10.l2"]["value"] == "http://c/***" and rows["vn.10.network"]["value"] == "op-mainnet"
    assert rows["vn.130.p2p.sequencer.key"]["value"] == "***"
    assert rows["vn.130.safedb.path"]["value"] == f"{tmp_path}/130/safe_db"
    text = cli.out("config", "show", "--toml", *words)
    (tmp_path / "again.toml").write_text(text)
    again = cli.json("config", "show", "--json", f"--config={tmp_path}/again.toml")
    assert {name: row["value"] for name, row in again.items() if name != "config"} == {
        name: row["value"] for name, row in rows.items() if name not in ("config", "vn.130.p2p.sequencer.key")
    } | {"vn.130.p2p.sequencer.key": again["vn.130.p2p.sequencer.key"]["value"]}
    wrong = cli("config", "show", "--chains=7", "--l1=http://a", "--vn.7.l2=x")
    assert wrong.code == 1 and wrong.err.startswith('rollup-node: invalid value "x" for flag --vn.7.l2: ')
