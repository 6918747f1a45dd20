"""`rollup-node history report` over a folder that a test wrote."""

import json
from pathlib import Path

import pytest

from rollup_node.node import cli
from rollup_node.tools.history.folder import HistoryFolder, RunFile
from rollup_node.tools.history.ranges import RunConfig

RUN = RunFile(RunConfig("v1", 1, "aa", 100, 10, 50, "jsonl", "engine", False), "local", 129)


def test_a_page_is_written_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, page = tmp_path / "out", tmp_path / "page.html"
    HistoryFolder(out).open(RUN)
    day = out / "l2_blocks" / "day=2024-08-27"
    day.mkdir(parents=True)
    (day / "range-1.jsonl").write_text(json.dumps({"l1_time": 1_724_785_044, "time": 1_724_785_034, "bytes": 5}) + "\n")
    words = ["history", "report", "--out", str(out), "--html", str(page)]
    assert cli.main(words) == 0
    text = page.read_text()
    assert "1 L2 blocks" in text and "2024-08-27: 10.0" in text and "L1 blocks 100 to 109: not derived" in text
    assert cli.main(words) == 1
    assert "--html: cannot write" in capsys.readouterr().err and page.read_text() == text
    for line in ("{", "[1]", '{"l1_time": "x"}', f'{{"l1_time": -{10**18}}}'):
        (day / "range-1.jsonl").write_text(line)
        assert cli.main([*words[:-1], str(tmp_path / "other.html")]) == 1
        assert "is unreadable" in capsys.readouterr().err and not (tmp_path / "other.html").exists()
