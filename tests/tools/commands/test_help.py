"""`rollup-node help`."""

import pytest

from rollup_node.node.options.table import OPTIONS
from rollup_node.tools.commands.help import TOPICS, topic_of, topic_text, topics_text
from tests.support.processes.cli import Cli


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
def test_topics_options_and_commands(words: tuple[str, ...], text: str, cli: Cli) -> None:
    assert text in cli.out("help", *words)


def test_every_option_has_a_topic_and_can_be_asked_for() -> None:
    of_topics = {topic: topic_text(topic) for topic in TOPICS}
    for option in OPTIONS.values():
        assert f"[{option.variable}]" in topic_text(option.name).replace("\n", "").replace(24 * " ", "")
        assert f"--{option.name} " in topic_text(f"--{option.name}")
        assert (f"--{option.name} " in of_topics[topic_of(option)]) is not option.hidden, option.name


def test_every_topic_has_options_and_a_line() -> None:
    assert {topic_of(option) for option in OPTIONS.values()} == set(TOPICS)
    assert all(f"  {name} " in topics_text() for name in TOPICS)


def test_the_longest_part_of_a_name_decides_the_topic() -> None:
    assert topic_of(OPTIONS["l1.beacon-fallbacks"]) == "beacon"
    assert topic_of(OPTIONS["l1.rpckind"]) == "l1"
