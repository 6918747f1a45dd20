"""The whole command line as one parser: the node's options and the commands with their first words."""

import argparse

from rollup_node.node.cli import COMMANDS
from rollup_node.node.options.help import TOPICS
from rollup_node.node.options.shell_parser import shell_parser
from rollup_node.node.setup.networks import network_names
from rollup_node.tools.commands.config import SHOW
from rollup_node.tools.commands.doc import METRICS
from rollup_node.tools.commands.p2p import DOCTOR, KEY_COMMANDS

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
