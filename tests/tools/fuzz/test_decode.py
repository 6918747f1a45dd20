"""A bounded fuzz run of `rollup-node decode`, and the requirements that each run is checked against."""

import json
from pathlib import Path

import pytest

from rollup_node.tools.fuzz.decode import MAX_MEMORY_MB, main


def test_two_hundred_inputs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--count", "200", "--seed", "3", "--bombs", "25", "--largest", "1"]
    assert main([*arguments, "--failures", str(tmp_path)]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert sum(summary["inputs"].values()) == 200
    assert set(summary["inputs"]) == {"good", "truncated", "flipped", "mutated", "bomb"}
    assert summary["peak_mb"] < MAX_MEMORY_MB
    assert summary["with_batches"]["good"] > 10 and summary["with_batches"]["flipped"] > 20
    assert len(summary["rules"]) > 10
    assert list(tmp_path.iterdir()) == []
