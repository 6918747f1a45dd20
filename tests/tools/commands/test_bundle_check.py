"""`rollup-node bundle-check` [CMD15]."""

from pathlib import Path

from rollup_node.stages.protocol import upgrade_transactions as upgrades
from rollup_node.stages.protocol.forks.bundles import BUNDLE_FORKS
from tests.support.processes.cli import Cli

FOLDER = Path(upgrades.__file__).parent / "forks"
KARST, LAGOON = BUNDLE_FORKS["karst"].carried[0], BUNDLE_FORKS["lagoon"].carried


DRAFT = next(item for item in LAGOON if item.sha256.startswith("a4a9dac5"))
"""A file whose numbers are known, whichever one the package uses."""


def test_the_table_of_a_bundle(cli: Cli) -> None:
    lines = cli.out("bundle-check", FOLDER / DRAFT.file).splitlines()
    assert lines[0].split() == ["SHA-256", DRAFT.sha256] and "draft" in lines[1]
    assert "nothing: compare the SHA-256 with op-core/nuts/fork_lock.toml" in lines[2]
    assert lines[2].endswith(", then give --rollup.lagoon-bundle=FILE")
    assert "29 with 64,827,394 gas" in lines[3] and "64,977,394 gas" in lines[4]
    rows = [line.split() for line in lines[7:]]
    assert len(rows) == 29 and rows[0][:3] == ["0", "=", "Deploy"]
    assert rows[0][5:7] == ["498,000", "0x2a5a3eabb9fd571a3af0299eebdf8eaafe29a914"]
    assert {row[1] == "=" for row in rows} == ({True} if DRAFT is LAGOON[0] else {True, False})
    assert rows[22][-1].endswith("3b6ae4c972988be1fcd7f125aaffcb5327fb39158379908186418e7f75b620f3")
    assert rows[28][-3:-1] == ["4,000,000", "-"]


def test_json(cli: Cli) -> None:
    result = cli.json("bundle-check", "--json", "--fork=karst", FOLDER / KARST.file)
    assert (result["fork"], result["sha256"], result["used"]) == ("karst", KARST.sha256, True)
    assert result["confirmed_by"] == KARST.confirmed_by and result["block_gas"] == result["transactions_gas"]
    assert all(item["same"] for item in result["transactions"])


def test_a_known_bundle_with_other_line_ends_is_known(tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "x.json").write_bytes((FOLDER / LAGOON[0].file).read_bytes().replace(b"\n", b"\r\n"))
    lines = cli.out("bundle-check", tmp_path / "x.json").splitlines()
    assert LAGOON[0].sha256 not in lines[0]
    assert f"the transactions of {LAGOON[0].sha256[:8]} in a file that was changed" in lines[1]


def test_a_file_for_another_fork_or_for_none_is_one_line(tmp_path: Path, cli: Cli) -> None:
    text = cli.refused("bundle-check", FOLDER / KARST.file)
    assert "(rollup-node bundle-check --fork=karst shows it)" in text
    (tmp_path / "x.json").write_text("{}")
    text = cli.refused("bundle-check", tmp_path / "x.json")
    assert "x.json: not a bundle of upgrade transactions" in text


def test_a_foreign_file_writes_nothing_else_to_the_terminal(tmp_path: Path, cli: Cli) -> None:
    content = (FOLDER / LAGOON[0].file).read_bytes()
    (tmp_path / "x.json").write_bytes(content.replace(b"L2ProxyAdmin Upgrade", b"\\u001b[2J\\nUpgrade"))
    out = cli.out("bundle-check", "--fork=karst", tmp_path / "x.json")
    assert "\x1b" not in out and "\\x1b[2J\\nUpgrade" in out
    assert "--rollup.karst-bundle" not in out
