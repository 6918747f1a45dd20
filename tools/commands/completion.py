"""`rollup-node completion`: the script that completes commands and options in a shell, and the parser it is made of."""

import argparse
from collections.abc import Sequence

import shtab

from rollup_node.node.cli import COMMANDS
from rollup_node.node.options.help import TOPICS, shell_parser
from rollup_node.node.setup.networks import network_names
from rollup_node.tools.commands.config import SHOW
from rollup_node.tools.commands.doc import METRICS
from rollup_node.tools.commands.flags import FlagParser
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
