"""The child process that runs `rollup-node decode` once per line of its input."""

import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec

from rollup_node.tools.fuzz.decode_child import DecodeRun, LineSink


def _run_child(*arguments: str, lines: str = "") -> str:
    command = [sys.executable, "-m", "rollup_node.tools.fuzz.decode_child", *arguments]
    return subprocess.run(command, input=lines, capture_output=True, text=True, check=False, timeout=50).stdout


def test_each_line_is_one_run(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(b"\1")
    lines = [[str(path), "--as", "data"], [str(tmp_path / "absent"), "--as", "data"], ["--no-such-flag"]]
    output = _run_child(lines="".join(json.dumps(line) + "\n" for line in lines))
    results = [msgspec.json.decode(line, type=DecodeRun) for line in output.splitlines()]
    assert [result.code for result in results[:2]] == [1, 1]
    assert "absent" in results[1].errors[0]
    assert len(results) == 3
    assert all(result.peak_kb > 10_000 for result in results)


def test_once_writes_the_peak_memory_to_its_file(tmp_path: Path) -> None:
    path, report = tmp_path / "data", tmp_path / "peak"
    path.write_bytes(b"\1")
    assert _run_child("--once", str(report), str(path), "--as", "data") == ""
    assert int(report.read_text()) > 10_000


def test_line_sink_counts_all_lines_and_keeps_the_first() -> None:
    sink = LineSink(2)
    print("one\ntw", end="", file=sink)
    print(f"o{os.linesep}three", file=sink)
    print("four", file=sink)
    assert sink.lines == 4
    assert sink.kept[:2] == ["one", "two"]
