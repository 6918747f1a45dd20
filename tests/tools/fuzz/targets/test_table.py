"""A bounded run of every fuzz target, and what the fuzzer does with a failing input."""

from pathlib import Path
from random import Random

import pytest

from rollup_node.tools.fuzz import __main__ as program
from rollup_node.tools.fuzz.targets.table import TARGETS

SECONDS = 0.7


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_accepts_mutated_inputs(name: str, tmp_path: Path) -> None:
    assert program.run(name, TARGETS[name], SECONDS, 17, tmp_path) > 5
    assert list(tmp_path.iterdir()) == []


def test_seeds_vary() -> None:
    chance = Random(3)
    for target in TARGETS.values():
        assert len({target.seed(chance) for _ in range(20)}) > 5


def test_a_failing_input_is_written_to_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def fails(data: bytes) -> None:
        assert b"\xff" not in data

    with pytest.raises(AssertionError):
        program.run("example", FuzzTarget(fails, lambda chance: bytes(50)), 30, 5, tmp_path)
    (kept,) = tmp_path.iterdir()
    assert b"\xff" in kept.read_bytes()
    assert str(kept) in capsys.readouterr().err


def test_the_command_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert program.main(["rlp", "--seconds", "0.1", "--failures", str(tmp_path)]) == 0
    assert capsys.readouterr().out.startswith("rlp: ")
    with pytest.raises(SystemExit):
        program.main(["nothing"])
