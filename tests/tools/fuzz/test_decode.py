"""A bounded fuzz run of `rollup-node decode`, and the requirements that each run is checked against."""

import json
import subprocess
import sys
from pathlib import Path

from rollup_node.tools.fuzz.decode import MAX_MEMORY_MB


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
