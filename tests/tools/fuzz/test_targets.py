"""Each parser takes damaged bytes for a while; the harness finds what fails."""

from pathlib import Path
from random import Random

import pytest

from rollup_node.tools.fuzz import __main__ as program
from rollup_node.tools.fuzz.targets import TARGETS, FuzzTarget

SECONDS = 0.7


@pytest.mark.parametrize("name", TARGETS)
def test_a_parser_for_a_while(name: str, tmp_path: Path) -> None:
    assert program.run(name, TARGETS[name], SECONDS, 17, tmp_path) > 5
    assert list(tmp_path.iterdir()) == []


def test_good_inputs_are_good() -> None:
    chance = Random(3)
    for target in TARGETS.values():
        assert len({target.seed(chance) for _ in range(20)}) > 5


def test_an_input_that_fails_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def fails(data: bytes) -> None:
        assert b"\xff" not in data

    with pytest.raises(AssertionError):
        program.run("made-up", FuzzTarget(fails, lambda chance: bytes(50)), 30, 5, tmp_path)
    (kept,) = tmp_path.iterdir()
    assert b"\xff" in kept.read_bytes()
    assert str(kept) in capsys.readouterr().err


def test_the_program(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert program.main(["rlp", "--seconds", "0.1", "--failures", str(tmp_path)]) == 0
    assert capsys.readouterr().out.startswith("rlp: ")
    with pytest.raises(SystemExit):
        program.main(["nothing"])
