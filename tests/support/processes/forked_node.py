"""The command `rollup-node` for a server that forks it, with the imports of a node and of a local network.

A network that it runs forks its nodes, too. The environment variable NUMBERS has other values of numbers in modules
than theirs, as JSON by dotted name: the processes wait for shorter times."""

import importlib
import json
import os
from collections.abc import Sequence
from contextlib import ExitStack
from unittest.mock import patch

from rollup_node.node import cli
from rollup_node.node.setup import start as _start
from rollup_node.node.system.process_table import PROCESSES
from rollup_node.tools.devnet import fork_server
from rollup_node.tools.multichain import run as _network
from tests.support.processes.forked_programs import COMMANDS, NUMBERS

__all__ = ["_network", "_start", "main"]

for _name in fork_server.COMMON:
    importlib.import_module(COMMANDS[_name])
for _spec in PROCESSES:
    for _name in (*_spec.preload, _spec.build.partition(":")[0]):
        importlib.import_module(_name)


def main(words: Sequence[str]) -> int:
    """Run the command; returns the exit code."""
    values = {f"rollup_node.tools.devnet.{name}.PROGRAMS": COMMANDS for name in ("fork_server", "child_programs")}
    with ExitStack() as stack:
        for name, value in (values | json.loads(os.environ.get(NUMBERS, "{}"))).items():
            stack.enter_context(patch(name, value))
        return cli.main(words)
