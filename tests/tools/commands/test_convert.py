"""`rollup-node config convert`: a file that the node takes, and what is refused."""

import sys
from pathlib import Path

import pytest

from tests.support.processes.cli import Cli

SCRIPT = """# our node
op-node --network=op-sepolia --l1=https://l1.example/v3/PROVIDER-KEY \\
  --l1.beacon=http://127.0.0.1:5052 --l2=http://127.0.0.1:8551 --l2.jwt-secret=/etc/jwt.hex \\
  --rpc.port=9546 --p2p.sequencer.key=5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a \\
  --sequencer.enabled
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "op-node.sh").write_text(SCRIPT)
    return tmp_path


def test_the_file_is_taken_by_the_node(cli: Cli, folder: Path) -> None:
    ended = cli("config", "convert", "op-node.sh")
    (folder / "node.toml").write_text(ended.out)
    rows = cli.json("config", "show", "--json", "--config=node.toml")
    assert rows["rpc.port"] == {"value": "9546", "origin": "file", "source": "rpc.port in file node.toml"}
    assert rows["l2.jwt-secret"]["value"] == "/etc/jwt.hex" and rows["l1"]["value"] == "https://l1.example/***"
    assert "PROVIDER-KEY" in ended.out and "PROVIDER-KEY" not in ended.err
    assert "5a5a" not in ended.out + ended.err and '"p2p.sequencer.key" is a secret' in ended.err
    assert all(line.startswith("rollup-node: note: ") for line in ended.err.splitlines())


def test_a_terminal_shows_no_key(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout.__class__, "isatty", lambda _: True, raising=False)
    ended = cli("config", "convert", "op-node.sh")
    assert '"l1" = ["https://l1.example/***"]' in ended.out and "PROVIDER-KEY" not in ended.out + ended.err


KONA = "KONA_NODE_L1_ETH_RPC=http://a\nKONA_NODE_L1_BEACON=http://b\nKONA_NODE_L2_ENGINE_RPC=http://c\n"
COMPOSE = """services:
 n:
  image: op-supernode
  command: [--chains=10, --l1=http://a, --l1.beacon=http://b, --vn.10.l2=http://c, --vn.10.network=op-mainnet,
    --vn.all.l2.jwt-secret=j]
"""


@pytest.mark.parametrize(
    ("name", "text", "words", "program"),
    [("a.env", KONA, (), "kona-node"), ("compose.yaml", COMPOSE, ("--chain=10",), "op-supernode")],
)
def test_the_program_is_seen(
    cli: Cli, folder: Path, name: str, text: str, words: tuple[str, ...], program: str
) -> None:
    (folder / name).write_text(text)
    out = cli.out("config", "convert", name, *words)
    assert out.startswith(f"# Options of rollup-node, from {name} ({program}") and '"network" = "op-mainnet"' in out


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("op-node.sh", "--from=kona-node"), "op-node.sh, line 2: kona-node has no flag --network"),
        (("op-node.sh", "--chain=10"), "--chain is for op-supernode, and these are the options of op-node"),
    ],
)
def test_what_is_wrong_ends_in_lines(cli: Cli, words: tuple[str, ...], error: str) -> None:
    ended = cli("config", "convert", *words)
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.splitlines()[0].startswith(f"rollup-node: {error}")
