"""`rollup-node replay --witness`: what is no witness, in one line. The round trip is in test_witness.py."""

from pathlib import Path

import pytest

from tests.support.processes.cli import Cli


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--witness",), "expected one argument"),
        (("--witness=none",), "there is no witness.json in it"),
        (("--witness", "none", "--l1", "http://x"), "unknown flag --l1"),
        (("--witness", "none", "--out", "file.txt"), "does not end in"),
    ],
)
def test_wrong_flags_are_rejected_in_one_line(words: tuple[str, ...], text: str, cli: Cli) -> None:
    assert text in cli.refused("replay", *words)


def test_a_damaged_manifest_is_named(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "witness.json").write_text("{")
    assert "witness.json is damaged" in cli.refused("replay", "--witness", tmp_path)
