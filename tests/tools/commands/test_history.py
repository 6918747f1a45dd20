"""`rollup-node history`: its commands."""

import pytest

from rollup_node.node import cli


def test_without_a_command_it_lists_them(capsys: pytest.CaptureFixture[str]) -> None:
    for words in ([], ["--help"]):
        assert cli.main(["history", *words]) == 0
        out = capsys.readouterr().out
        assert all(f"\n  {name} " in out for name in ("plan", "run", "status", "verify", "report", "safedb"))


def test_an_unknown_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["history", "verfy"]) == 1
    err = capsys.readouterr().err
    assert "unknown command history 'verfy'" in err and "verify" in err and len(err.splitlines()) == 1


@pytest.mark.parametrize("name", ["plan", "run", "status", "verify", "report", "safedb", "range"])
def test_each_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["history", name, "--help"]) == 0
    assert capsys.readouterr().out.startswith(f"usage: rollup-node history {name}")


def test_without_arrow_it_says_how_to_install_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    words = ["--from-l1", "6000000", "--to-l1", "6000001", "--out", "nowhere", "--network", "op-sepolia"]
    sources = ["--l1", "http://127.0.0.1:9", "--l1.beacon", "http://127.0.0.1:9", "--l2", "http://127.0.0.1:9"]
    assert cli.main(["history", "run", *words, *sources]) == 1
    err = capsys.readouterr().err
    assert "pip install 'rollup-node[history]', or give --jsonl" in err and len(err.splitlines()) == 1
