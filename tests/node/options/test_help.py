"""The help texts: one screen, all options, one topic [CMD8]."""

import functools

import pytest
import shtab

from rollup_node.node.cli import COMMANDS
from rollup_node.node.options.errors import OptionError
from rollup_node.node.options.help import (
    MAIN_OPTIONS,
    TOPICS,
    full_help_text,
    help_text,
    shell_parser,
    topic_of,
    topic_text,
    topics_text,
)
from rollup_node.node.options.option import AnyOption
from rollup_node.node.options.table import OPTIONS, SECTIONS

SUMMARIES = {name: command.summary for name, command in COMMANDS.items()}


def test_help_fits_a_screen() -> None:
    lines = help_text(SUMMARIES).splitlines()
    assert len(lines) <= 36
    assert max(map(len, lines)) <= 79
    assert [line.split()[0] for line in lines[2:15]] == [f"--{name}" for name in MAIN_OPTIONS]
    assert all(any(line.startswith(f"  {name} ") for line in lines) for name in COMMANDS)


def test_the_main_options_are_shown_options() -> None:
    assert not [name for name in MAIN_OPTIONS if OPTIONS[name].hidden]


def test_all_help_shows_every_section_and_no_hidden_option() -> None:
    text = full_help_text(SUMMARIES)
    for section in SECTIONS:
        if any(not option.hidden for option in section.options):
            assert f"{section.title}:" in text
    for option in OPTIONS.values():
        assert (f"  --{option.name} " in text or f", --{option.name} " in text) is not option.hidden
        assert (f"[{option.variable}]" in text.replace("\n", "")) or option.hidden
    assert "One of consensus-layer, execution-layer." in " ".join(text.split()).replace("- ", "-")


cached_topic_text = functools.cache(topic_text)


@pytest.mark.parametrize("option", OPTIONS.values(), ids=lambda option: option.name)
def test_every_option_has_a_topic_and_can_be_asked_for(option: AnyOption) -> None:
    assert f"[{option.variable}]" in topic_text(option.name).replace("\n", "").replace(24 * " ", "")
    assert f"--{option.name} " in topic_text(f"--{option.name}")
    assert (f"--{option.name} " in cached_topic_text(topic_of(option))) is not option.hidden


def test_every_topic_has_options_and_a_line() -> None:
    assert {topic_of(option) for option in OPTIONS.values()} == set(TOPICS)
    assert all(f"  {name} " in topics_text() for name in TOPICS)


def test_the_longest_part_of_a_name_decides_the_topic() -> None:
    assert topic_of(OPTIONS["l1.beacon-fallbacks"]) == "beacon"
    assert topic_of(OPTIONS["l1.rpckind"]) == "l1"


def test_an_unknown_topic_is_one_line_with_the_topics() -> None:
    with pytest.raises(OptionError) as caught:
        topic_text("sequencr")
    text = str(caught.value)
    assert text == f'unknown topic "sequencr"; did you mean sequencer?; topics are {", ".join(TOPICS)}'


def test_options_and_commands() -> None:
    parser = shell_parser({"run": "runs"}, {"run": ("fast", "slow")}, {"network": ("a", "b")})
    actions = {name: action for action in parser._actions for name in action.option_strings}
    assert {name for name, option in OPTIONS.items() if not option.hidden} <= {flag[2:] for flag in actions}
    assert not [name for name, option in OPTIONS.items() if option.hidden and f"--{name}" in actions]
    assert tuple(actions["--network"].choices or ()) == ("a", "b")
    assert actions["--l1.trustrpc"].nargs == 0 and actions["--l1"].nargs is None
    assert getattr(actions["--safedb.path"], "complete", None) == shtab.FILE
    assert parser.parse_args(["run", "slow"]).word == "slow"
    assert len(parser.format_help()) > 5000
