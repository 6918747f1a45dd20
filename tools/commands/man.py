"""`rollup-node man`: the manual page, in the man macros of roff."""

import textwrap
from collections.abc import Iterator, Sequence

from rollup_node.node.cli import COMMANDS
from rollup_node.node.options.option import AnyOption
from rollup_node.node.options.table import SECTIONS
from rollup_node.node.options.value_types import BOOL
from rollup_node.node.system.exit_codes import PROGRAM, version
from rollup_node.tools.commands.completion import EPILOG, USAGE
from rollup_node.tools.commands.flags import FlagParser

DESCRIPTION = "Prints the manual page: rollup-node man | man -l -"
SUMMARY = "an OP Stack rollup node"
WIDTH = 100
"""Characters in a line of the source; the formatter fills lines by itself."""


def main(arguments: Sequence[str]) -> int:
    """Print the page."""
    FlagParser("man", DESCRIPTION).parse_all(arguments)
    print("\n".join(_page()))
    return 0


def _page() -> Iterator[str]:
    yield f'.TH {PROGRAM.upper()} 1 "" "{PROGRAM} {_text(version())}"'
    yield f".SH NAME\n{_text(PROGRAM)} \\- {SUMMARY}"
    yield ".SH SYNOPSIS"
    yield _lines(USAGE)
    yield f".SH DESCRIPTION\n{_lines(EPILOG)}"
    for section in SECTIONS:
        shown = [option for option in section.options if not option.hidden]
        if shown:
            yield f".SH {_text(section.title.upper())}"
            yield from map(_option, shown)
    yield ".SH COMMANDS"
    for name, command in COMMANDS.items():
        yield f".TP\n\\fB{_text(name)}\\fR\n{_lines(command.summary)}"


def _option(option: AnyOption) -> str:
    value = "" if option.value_type is BOOL else f" \\fI{option.metavar}\\fR"
    words = "" if not option.value_type.allowed else f" One of {', '.join(option.value_type.allowed)}."
    default = "" if option.default is None else f" Default: {option.default}."
    text = _lines(f"{option.help}{words}{default} [{option.variable}]")
    return f".TP\n\\fB{_text('--' + option.name)}\\fR{value}\n{text}"


def _lines(text: str) -> str:
    """Return a paragraph in short lines. A control character at the beginning of a line is made an ordinary one."""
    lines = textwrap.wrap(" ".join(text.split()), WIDTH, break_long_words=False, break_on_hyphens=False)
    return "\n".join(f"\\&{_text(line)}" if line[0] in ".'" else _text(line) for line in lines)


def _text(text: str) -> str:
    """Text whose characters stand for themselves."""
    return text.replace("\\", "\\e").replace("-", "\\-")
