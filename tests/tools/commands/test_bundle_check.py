"""`rollup-node bundle-check` [CMD15]."""

import json
from pathlib import Path

import pytest

from rollup_node.node import cli
from rollup_node.stages.protocol import upgrade_transactions as upgrades
from rollup_node.stages.protocol.forks.bundles import BUNDLE_FORKS

FOLDER = Path(upgrades.__file__).parent / "forks"
LAGOON = BUNDLE_FORKS["lagoon"].carried


def test_the_table_of_a_bundle(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bundle-check", str(FOLDER / LAGOON[1].file)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["SHA-256", LAGOON[1].sha256] and "draft" in lines[1]
    assert "nothing: compare the SHA-256 with op-core/nuts/fork_lock.toml" in lines[2]
    assert lines[2].endswith(", then give --rollup.lagoon-bundle=FILE")
    assert "29 with 64,827,394 gas" in lines[3] and "64,977,394 gas" in lines[4]
    rows = lines[7:]
    assert len(rows) == 29
    assert rows[0].split()[:3] == ["0", "=", "Deploy"] and rows[0].split()[5:7] == [
        "498,000",
        "0x2a5a3eabb9fd571a3af0299eebdf8eaafe29a914",
    ]
    assert rows[4].split()[1] == "Deploy", "it differs"
    assert rows[22].endswith("3b6ae4c972988be1fcd7f125aaffcb5327fb39158379908186418e7f75b620f3")
    assert rows[28].split()[-3:-1] == ["4,000,000", "-"]


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    karst = BUNDLE_FORKS["karst"].carried[0]
    assert cli.main(["bundle-check", "--json", "--fork=karst", str(FOLDER / karst.file)]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["fork"], result["sha256"], result["used"]) == ("karst", karst.sha256, True)
    assert result["confirmed_by"] == karst.confirmed_by and result["block_gas"] == result["transactions_gas"]
    assert all(item["same"] for item in result["transactions"])


def test_a_known_bundle_with_other_line_ends_is_known(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.json").write_bytes((FOLDER / LAGOON[0].file).read_bytes().replace(b"\n", b"\r\n"))
    assert cli.main(["bundle-check", str(tmp_path / "x.json")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert LAGOON[0].sha256 not in lines[0]
    assert f"the transactions of {LAGOON[0].sha256[:8]} in a file that was changed" in lines[1]


def test_a_file_for_another_fork_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    karst = FOLDER / BUNDLE_FORKS["karst"].carried[0].file
    assert cli.main(["bundle-check", str(karst)]) == 1
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and "(rollup-node bundle-check --fork=karst shows it)" in err


def test_a_wrong_file_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.json").write_text("{}")
    assert cli.main(["bundle-check", str(tmp_path / "x.json")]) == 1
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and "x.json: not a bundle of upgrade transactions" in err


def test_a_foreign_file_writes_nothing_else_to_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = (FOLDER / BUNDLE_FORKS["lagoon"].carried[0].file).read_bytes()
    path = tmp_path / "x.json"
    path.write_bytes(content.replace(b"L2ProxyAdmin Upgrade", b"\\u001b[2J\\nUpgrade"))
    assert cli.main(["bundle-check", "--fork=karst", str(path)]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out and "\\x1b[2J\\nUpgrade" in out
    assert "--rollup.karst-bundle" not in out
