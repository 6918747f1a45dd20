"""A bounded run of the generated inputs for `rollup-node decode`, and what the run would not let pass."""

import json
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest

from rollup_node.stages.derivation.codec.channel_body import open_body
from rollup_node.stages.derivation.codec.rlp_stream import read_items
from rollup_node.stages.derivation.reasons.reason import Reason
from rollup_node.tools.fuzz import bombs
from rollup_node.tools.fuzz.decode import MAX_MEMORY_MB, Failure, Runner, check
from rollup_node.tools.fuzz.inputs import Input, Inputs


def test_four_hundred_inputs(tmp_path: Path) -> None:
    words = ["--count", "400", "--seed", "3", "--bombs", "25", "--largest", "1", "--programs", "150"]
    command = [sys.executable, "-m", "rollup_node.tools.fuzz.decode", *words, "--failures", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=58, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert sum(found["inputs"].values()) == 400
    assert set(found["inputs"]) == {"good", "truncated", "flipped", "mutated", "bomb"}
    assert found["peak_mb"] < MAX_MEMORY_MB
    assert found["with_batches"]["good"] > 20 and found["with_batches"]["flipped"] > 20
    assert len(found["rules"]) > 10
    assert list(tmp_path.iterdir()) == []


def test_inputs_are_repeatable() -> None:
    first, second = (Inputs(5, 1_000_000, 0, {}) for _ in range(2))
    assert [first.next() for _ in range(30)] == [second.next() for _ in range(30)]


@pytest.mark.parametrize("stream", bombs.STREAMS, ids=lambda stream: stream.__name__)
def test_bombs_unfold_to_what_they_say(stream: Any) -> None:
    for size in (150_000, 3_000_000):
        assert 0.9 * size < sum(map(len, stream(size))) < 1.2 * size + 1000


def test_the_largest_bombs_are_within_the_limit_of_a_channel() -> None:
    for stream in (bombs.one_item, bombs.full_span, bombs.long_span, bombs.empty_transactions):
        reader = open_body(bombs._zlib(stream(18_000_000), 0), 100_000_000, True)
        assert not isinstance(reader, Reason)
        assert isinstance(next(read_items(reader, 100_000_000)), bytes)


def test_bombs_of_every_kind_are_small() -> None:
    chance = Random(1)
    for kind, makers in bombs.BOMBS.items():
        for make in makers:
            assert len(make(chance, 300_000)) < 500_000, kind


GOOD = {"code": 0, "lines": 1, "errors": [], "traceback": "", "peak_kb": 30_000}
ERROR = "rollup-node: f: offset 5: frames ignored: no bytes [P1]"


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"traceback": "Traceback"}, "a traceback"),
        ({"peak_kb": 300_001}, "300001 KB of memory"),
        ({"code": 2}, "exit code 2"),
        ({"lines": 0}, "exit code 0 with 0 lines"),
        ({"code": 1, "errors": [ERROR]}, "exit code 1 with 1 lines"),
        ({"code": 1, "lines": 0}, "nothing is said"),
        ({"errors": ["rollup-node: f: frames ignored [P1]"]}, "no place"),
        ({"errors": ["rollup-node: f: offset 5: frames ignored"]}, "no rule"),
        ({"errors": [ERROR.replace("P1", "P77")]}, "rule P77 is none"),
    ],
)
def test_what_is_not_let_pass(changes: dict[str, Any], text: str) -> None:
    check(GOOD)
    check(GOOD | {"errors": [ERROR, "rollup-node: 5 more like this [P1]", "rollup-node: warning: of span"]})
    check(GOOD | {"code": 1, "lines": 0, "errors": [ERROR]})
    with pytest.raises(Failure, match=text):
        check(GOOD | changes)


def test_both_ways_to_run_end_alike(tmp_path: Path) -> None:
    tried = Input("data", (b"\0" + bytes(16) + b"\0\0\0\0\0\0\1", b"0x01"), ("--json",), "good")
    with Runner(tmp_path) as runner:
        words = runner.words(tried)
        inside, outside = runner.run(words), runner.program(words)
    assert inside["errors"] == outside["errors"] and len(inside["errors"]) == 2
    assert (inside["code"], outside["code"]) == (1, 1)
    for ended in (inside, outside):
        check(ended)
        assert 10_000 < ended["peak_kb"] < 100_000
