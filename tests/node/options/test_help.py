"""The help texts: one screen, and all options [CMD8]."""

import re

from rollup_node.node.cli import COMMANDS
from rollup_node.node.options.help import BY_NAME_ALONE, MAIN_OPTIONS, full_help_text, help_text
from rollup_node.node.options.table import OPTIONS, SECTIONS

SUMMARIES = {name: command.summary for name, command in COMMANDS.items()}


def test_help_fits_a_screen() -> None:
    lines = help_text(SUMMARIES).splitlines()
    assert len(lines) <= 36
    assert max(map(len, lines)) <= 79
    assert [line.split()[0] for line in lines[2 : 2 + len(MAIN_OPTIONS)]] == [f"--{name}" for name in MAIN_OPTIONS]
    assert not [name for name in MAIN_OPTIONS if OPTIONS[name].hidden]
    more = " ".join(lines).partition(" more: ")[2].partition(" Example:")[0]
    assert set(re.split("[, ]+", more)) == set(BY_NAME_ALONE)
    assert all(name in BY_NAME_ALONE or any(line.startswith(f"  {name} ") for line in lines) for name in COMMANDS)


def test_all_help_shows_every_section_and_no_hidden_option() -> None:
    text = full_help_text(SUMMARIES)
    for section in SECTIONS:
        if any(not option.hidden for option in section.options):
            assert f"{section.title}:" in text
    for option in OPTIONS.values():
        assert (f"  --{option.name} " in text or f", --{option.name} " in text) is not option.hidden
        assert (f"[{option.variable}]" in text.replace("\n", "")) or option.hidden
    assert "One of consensus-layer, execution-layer." in " ".join(text.split()).replace("- ", "-")
