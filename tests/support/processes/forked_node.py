"""The command `rollup-node` for a server that forks it, with the imports of a node and of a local network.

A network that it runs forks its nodes, too."""

import importlib
from collections.abc import Sequence
from unittest.mock import patch

from rollup_node.node import cli
from rollup_node.node.setup import start as _start
from rollup_node.node.system.process_table import PROCESSES
from rollup_node.tools.devnet import child_programs, fork_server
from rollup_node.tools.multichain import run as _network
from tests.support.processes.forked_programs import COMMANDS

__all__ = ["_network", "_start", "main"]

for _name in fork_server.COMMON:
    importlib.import_module(COMMANDS[_name])
for _spec in PROCESSES:
    for _name in (*_spec.preload, _spec.build.partition(":")[0]):
        importlib.import_module(_name)


def main(words: Sequence[str]) -> int:
    """Run the command; returns the exit code."""
    with patch.object(fork_server, "PROGRAMS", COMMANDS), patch.object(child_programs, "PROGRAMS", COMMANDS):
        return cli.main(words)
