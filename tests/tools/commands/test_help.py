"""`rollup-node help`."""

import pytest

from rollup_node.node import cli
from rollup_node.node.system.exit_codes import ExitCode


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ((), "  beacon "),
        (("--help",), "  beacon "),
        (("beacon",), "--l1.beacon-header STRING"),
        (("--l1.beacon",), "--l1.beacon URL"),
        (("explain",), "usage: rollup-node explain"),
    ],
)
def test_topics_options_and_commands(words: tuple[str, ...], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["help", *words]) == ExitCode.OK
    assert text in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "text"),
    [(("becon",), 'unknown topic "becon"; did you mean beacon?; topics are l1, '), (("l1", "l2"), "help takes one")],
)
def test_a_wrong_topic_is_one_line(words: tuple[str, ...], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["help", *words]) == ExitCode.SETUP
    error = capsys.readouterr().err
    assert error.startswith(f"rollup-node: {text}") and error.count("\n") == 1
