"""A bounded fuzz run of `rollup-node decode`, and the requirements that each run is checked against."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rollup_node.tools.fuzz.decode import MAX_MEMORY_MB, CheckFailed, check
from rollup_node.tools.fuzz.decode_child import DecodeRun


def test_two_hundred_inputs(tmp_path: Path) -> None:
    arguments = ["--count", "200", "--seed", "3", "--bombs", "25", "--largest", "1", "--programs", "150"]
    command = [sys.executable, "-m", "rollup_node.tools.fuzz.decode", *arguments, "--failures", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=58, check=False)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert sum(summary["inputs"].values()) == 200
    assert set(summary["inputs"]) == {"good", "truncated", "flipped", "mutated", "bomb"}
    assert summary["peak_mb"] < MAX_MEMORY_MB
    assert summary["with_batches"]["good"] > 10 and summary["with_batches"]["flipped"] > 20
    assert len(summary["rules"]) > 10
    assert list(tmp_path.iterdir()) == []


GOOD = DecodeRun(code=0, lines=1, errors=[], traceback="", peak_kb=30_000)
ERROR = "rollup-node: f: offset 5: frames ignored: no bytes [P1]"


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"traceback": "Traceback"}, "traceback"),
        ({"peak_kb": 300_001}, "300001 KB of memory"),
        ({"code": 2}, "exit code 2"),
        ({"lines": 0}, "exit code 0 with 0 lines"),
        ({"code": 1, "errors": [ERROR]}, "exit code 1 with 1 lines"),
        ({"code": 1, "lines": 0}, "exit code 1 without an error message"),
        ({"errors": ["rollup-node: f: frames ignored [P1]"]}, "no location"),
        ({"errors": ["rollup-node: f: offset 5: frames ignored"]}, "no rule"),
        ({"errors": [ERROR.replace("P1", "P77")]}, "unknown rule P77"),
    ],
)
def test_check_names_the_broken_requirement(changes: dict[str, Any], text: str) -> None:
    replace = msgspec.structs.replace
    check(GOOD)
    check(replace(GOOD, errors=[ERROR, "rollup-node: 5 more like this [P1]", "rollup-node: warning: of span"]))
    check(replace(GOOD, code=1, lines=0, errors=[ERROR]))
    with pytest.raises(CheckFailed, match=text):
        check(replace(GOOD, **changes))
