"""`rollup-node history`: its commands."""

import pytest

from tests.support.processes.cli import Cli

NAMES = ("plan", "run", "status", "verify", "report", "safedb")


@pytest.mark.parametrize("words", [(), ("--help",)])
def test_without_a_command_it_lists_them(words: tuple[str, ...], cli: Cli) -> None:
    out = cli.out("history", *words)
    assert all(f"\n  {name} " in out for name in NAMES)


@pytest.mark.parametrize("name", [*NAMES, "range"])
def test_each_has_help(name: str, cli: Cli) -> None:
    assert cli.out("history", name, "--help").startswith(f"usage: rollup-node history {name}")


def test_without_arrow_it_says_how_to_install_it(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    words = ["--from-l1", "6000000", "--to-l1", "6000001", "--out", "nowhere", "--network", "op-sepolia"]
    sources = ["--l1", "http://127.0.0.1:9", "--l1.beacon", "http://127.0.0.1:9", "--l2", "http://127.0.0.1:9"]
    text = cli.refused("history", "run", *words, *sources)
    assert "pip install 'rollup-node[history]', or give --jsonl" in text
