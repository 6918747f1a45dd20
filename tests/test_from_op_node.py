"""docs/from-op-node.md: its command lines run, and it names every option without effect and every exit code."""

import re
import shlex
from pathlib import Path

import pytest

from rollup_node.node import cli
from rollup_node.node.options.table import OPTIONS
from rollup_node.node.system.exit_codes import ExitCode

TEXT = (Path(__file__).parents[1] / "docs" / "from-op-node.md").read_text()
LINES = [line for block in re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL) for line in block.splitlines()]


@pytest.mark.parametrize("line", LINES)
def test_a_command_line_runs(line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    words = shlex.split(line)
    while words[0] != "rollup-node":
        monkeypatch.setenv(*words.pop(0).split("=", 1))
    assert cli.main(words[1:]) == ExitCode.OK
    assert capsys.readouterr().out


def test_there_are_command_lines() -> None:
    assert len(LINES) >= 5


def test_every_option_without_effect_is_named() -> None:
    assert not [name for name, option in OPTIONS.items() if option.warning and f"`{name}`" not in TEXT]


def test_every_flag_that_is_named_exists() -> None:
    named = set(
        re.findall(r"--([a-z][a-z0-9.-]*[a-z0-9])", TEXT.partition("## Convert")[0] + TEXT.partition("## Options")[2])
    )
    named -= {"help", "help-all", "json", "version"}
    assert named and named <= set(OPTIONS)


def test_every_exit_code_of_the_node_is_named() -> None:
    assert not [code for code in ExitCode if code != ExitCode.INTERRUPTED and f"| {code.value} | " not in TEXT]


def test_every_rule_that_is_named_exists() -> None:
    rules = "".join(path.read_text() for path in (Path(__file__).parents[1] / "docs" / "rules").glob("node-*.md"))
    named = set(re.findall(r"\b(?:OPT|RPC|LOG|CMD)[0-9]+\b", TEXT))
    assert named and not [rule for rule in named if f"**{rule}**" not in rules]
