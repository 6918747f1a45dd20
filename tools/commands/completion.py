"""`rollup-node completion`: the script that completes the program's commands and options in a shell."""

from collections.abc import Sequence

import shtab

from rollup_node.tools.commands.command_line import SHELLS, command_line
from rollup_node.tools.commands.flags import FlagParser

DESCRIPTION = """Prints the completion script of a shell. bash: eval "$(rollup-node completion bash)"; zsh: write it to
_rollup-node in a folder of $fpath; fish: to ~/.config/fish/completions/rollup-node.fish."""


def main(arguments: Sequence[str]) -> int:
    """Print the script. Raises SetupError for another shell."""
    parser = FlagParser("completion", DESCRIPTION)
    parser.add_argument("shell", choices=SHELLS)
    print(shtab.complete(command_line(), parser.parse_all(arguments).shell), end="")
    return 0
