"""`rollup-node completion`: the script that completes commands and options in a shell, and the parser it is made of."""

import argparse
from collections.abc import Mapping, Sequence

import shtab

from rollup_node.node.cli import COMMANDS
from rollup_node.node.options.option import AnyOption
from rollup_node.node.options.table import SECTIONS
from rollup_node.node.options.value_types import BOOL, OPTIONAL_PATH, PATH
from rollup_node.node.setup.networks import network_names
from rollup_node.node.system.exit_codes import PROGRAM
from rollup_node.tools.commands.config import SHOW
from rollup_node.tools.commands.doc import METRICS
from rollup_node.tools.commands.flags import FlagParser
from rollup_node.tools.commands.help import TOPICS
from rollup_node.tools.commands.p2p import DOCTOR, KEY_COMMANDS

DESCRIPTION = """Prints the completion script of a shell. bash: eval "$(rollup-node completion bash)"; zsh: write it to
_rollup-node in a folder of $fpath; fish: to ~/.config/fish/completions/rollup-node.fish."""


def main(arguments: Sequence[str]) -> int:
    """Print the script. Raises SetupError for another shell."""
    parser = FlagParser("completion", DESCRIPTION)
    parser.add_argument("shell", choices=SHELLS)
    print(shtab.complete(command_line(), parser.parse_all(arguments).shell), end="")
    return 0


SHELLS = ("bash", "zsh", "fish")


def command_line() -> argparse.ArgumentParser:
    """Return the parser, for completion."""
    words = {
        "help": tuple(TOPICS),
        "completion": SHELLS,
        "config": (SHOW,),
        "doc": (METRICS,),
        "p2p": (DOCTOR, *KEY_COMMANDS),
    }
    summaries = {name: command.summary for name, command in COMMANDS.items()}
    return shell_parser(summaries, words, {"network": network_names()})


USAGE = f"{PROGRAM} [options] | {PROGRAM} COMMAND ..."


EPILOG = """An option may be set by its flag, by the variable in brackets, or in the file of --config; the first of
these that sets it wins."""


def shell_parser(
    summaries: Mapping[str, str], words: Mapping[str, tuple[str, ...]], choices: Mapping[str, tuple[str, ...]]
) -> argparse.ArgumentParser:
    """Return the options that are not hidden, by section, and the commands with their lines.

    `words` are the arguments of commands, `choices` the values of options whose type does not list them."""
    parser = argparse.ArgumentParser(PROGRAM, USAGE, "An OP Stack rollup node.", EPILOG)
    for section in SECTIONS:
        group = parser.add_argument_group(section.title)
        for option in section.options:
            if not option.hidden:
                _add_option(group, option, choices.get(option.name, option.value_type.allowed))
    commands = parser.add_subparsers(title="Commands")
    for name, line in summaries.items():
        command = commands.add_parser(name, help=line, description=line)
        if name in words:
            command.add_argument("word", choices=words[name], help=f"one of {', '.join(words[name])}", nargs="?")
    return parser


def _add_option(group: "argparse._ArgumentGroup", option: AnyOption, choices: tuple[str, ...]) -> None:
    default = "" if option.default is None else f" Default: {option.default}."
    text = f"{option.help}{default} [{option.variable}]".replace("%", "%%")
    flag = f"--{option.name}"
    if option.value_type is BOOL:
        group.add_argument(flag, action="store_true", help=text)
        return
    metavar = option.value_type.label.split()[0].upper()
    action = group.add_argument(flag, help=text, metavar=metavar, choices=choices or None)
    if option.value_type in (PATH, OPTIONAL_PATH):
        action.complete = shtab.FILE  # type: ignore[attr-defined]
