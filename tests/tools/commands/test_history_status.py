"""`rollup-node history status` and `verify` over folders that tests wrote."""

import json
from pathlib import Path

import msgspec
import pytest

from rollup_node.tools.history.folder import HistoryFolder, RunFile, file_entry
from rollup_node.tools.history.manifest import RunConfig
from tests.support.chains.history_values import row
from tests.support.chains.small_history import small_history
from tests.support.processes.cli import Cli

CONFIG = RunConfig("v1", 1, "aa", 100, 10, 50, "jsonl", "engine", False)
RUN = RunFile(CONFIG, "local", 129)


def _history(path: Path, *firsts: int, salt: str = "") -> HistoryFolder:
    folder = HistoryFolder(path)
    folder.open(RUN)
    for first in firsts:
        item = row(first, first + 9, CONFIG.digest, salt if first != firsts[0] else "")
        source = folder.partial(item.range) / "rows"
        source.write_text("x")
        name = item.files[0].path
        folder.publish(
            msgspec.structs.replace(item, files=(file_entry(source, name, "l2_blocks", 20),)), {name: source}
        )
    return folder


def test_a_history_with_a_gap(tmp_path: Path, cli: Cli) -> None:
    folder = _history(tmp_path / "out", 100, 120)
    assert cli.out("history", "status", "--out", folder.path).splitlines() == [
        "local: L1 blocks 100 to 129, 2 of 3 ranges done",
        "L1 blocks 20 of 30, L2 blocks 40",
        "10.0 L1 blocks/s a worker",
        "missing: L1 blocks 110 to 119",
    ]
    ended = cli("history", "verify", "--out", folder.path)
    assert ended.code == 1 and ended.out.startswith("L1 blocks 110 to 119: not derived\n")
    assert ended.err == "rollup-node: NOT proved: 2 of 3 ranges, L1 blocks 100 to 129\n"


def test_a_whole_history_is_proved_until_a_byte_changes(tmp_path: Path, cli: Cli) -> None:
    folder = small_history(tmp_path / "out")
    ended = cli("history", "verify", "--out", folder.path)
    assert (ended.code, ended.err) == (0, "rollup-node: proved: 3 of 3 ranges, L1 blocks 100 to 129\n")
    digest, *trusted = ended.out.splitlines()
    assert digest.startswith("SHA-256 of all tables: ") and len(digest.split()[-1]) == 64
    assert [line.partition(",")[0] for line in trusted] == [
        "trusted: that the L2 source executed its blocks rightly (their hashes are its own; their contents were derived"
        " here)",
        "trusted: that L1's headers are those of the canonical chain (their transactions and receipts were checked"
        " against them unless --l1.trustrpc was given)",
    ]
    path = next((folder.path / "l2_blocks").rglob("*110.jsonl"))
    path.write_text("y" + path.read_text()[1:])
    ended = cli("history", "verify", "--out", folder.path)
    assert ended.code == 1 and "SHA-256 of all" not in ended.out
    assert f"L1 blocks 110 to 119: {path.relative_to(folder.path)}: " in ended.out


@pytest.mark.parametrize(("name", "code"), [("status", 0), ("verify", 1)])
def test_a_damaged_manifest_is_named(name: str, code: int, tmp_path: Path, cli: Cli) -> None:
    folder = small_history(tmp_path / "out")
    (folder.path / "manifest" / "range-000000000110.json").write_text("{")
    ended = cli("history", name, "--out", folder.path)
    assert ended.code == code and '/range-000000000110.json" is unreadable (' in ended.out


def test_an_open_seam(tmp_path: Path, cli: Cli) -> None:
    folder = _history(tmp_path / "out", 100, 110, salt="5")
    text = "open seam L1 109/110: L1 origin of the safe head differ: run again"
    assert text in cli.out("history", "status", "--out", folder.path).splitlines()


@pytest.mark.parametrize(
    "command", ["status", "verify", "report --html x", "safedb --network op-sepolia --safedb.path x"]
)
def test_a_folder_without_a_history(command: str, tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "thesis.txt").write_text("x")
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "run.json").write_text('{"mine": 1}')
    for where, text in {
        "empty": "there is no history in",
        "nowhere": "there is no history in",
        "": "is not empty and holds no history: name another folder",
        "thesis.txt": "is not a folder: name one",
        "foreign": 'run.json" is unreadable: Object missing required field',
    }.items():
        assert text in cli.refused("history", *command.split(), "--out", tmp_path / where)
    assert not Path("x").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "foreign", "thesis.txt"]


def test_a_page_is_written_once(tmp_path: Path, cli: Cli) -> None:
    out, page = tmp_path / "out", tmp_path / "page.html"
    HistoryFolder(out).open(RUN)
    day = out / "l2_blocks" / "day=2024-08-27"
    day.mkdir(parents=True)
    (day / "range-1.jsonl").write_text(json.dumps({"l1_time": 1_724_785_044, "time": 1_724_785_034, "bytes": 5}) + "\n")
    words = ["history", "report", "--out", out, "--html"]
    cli.out(*words, page)
    text = page.read_text()
    assert "1 L2 blocks" in text and "2024-08-27: 10.0" in text and "L1 blocks 100 to 109: not derived" in text
    assert "--html: cannot write" in cli.refused(*words, page) and page.read_text() == text
    for line in ("{", "[1]", '{"l1_time": "x"}', f'{{"l1_time": -{10**18}}}'):
        (day / "range-1.jsonl").write_text(line)
        assert "is unreadable" in cli.refused(*words, tmp_path / "other.html")
        assert not (tmp_path / "other.html").exists()
