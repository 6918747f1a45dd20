"""What the commands on L1 data share: their flags beside the node's options, the processes they need, their output."""

import argparse
import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from rollup_node.node.commands.flags import Parser
from rollup_node.node.options.parsing import parse_options
from rollup_node.node.options.rules import check_l1_options
from rollup_node.node.options.values import Values
from rollup_node.node.setup.chain import ChosenChain, choose_chain
from rollup_node.node.setup.endpoint_checks import Endpoints, Patience, check_beacon, check_l1
from rollup_node.node.setup.plan import blobs_config, l1_config, worker_count
from rollup_node.node.supervisor.settings import NodeSettings
from rollup_node.node.supervisor.supervisor import run_node
from rollup_node.node.system.exit_codes import SetupError
from rollup_node.node.system.log_formats import LogSettings
from rollup_node.node.system.processes import PROCESSES, Row, row_of
from rollup_node.node.system.version import PROGRAM, version
from rollup_node.stages.compute.config import ComputeConfig
from rollup_node.stages.io.log import Level

PATIENCE = Patience(whole=10.0)
HELP_END = "Options of the node for its L1, beacon node, network and logs are taken as well: rollup-node --help."


class Command(NamedTuple):
    """A command line read: its own flags, the node's options, the chain."""

    own: argparse.Namespace
    values: Values
    chain: ChosenChain


def read(parser: Parser, words: Sequence[str]) -> Command:
    """Reads a command line, the flags that the command does not know being options of the node; SetupError for
    anything wrong."""
    own, rest = parser.parse_known_args(list(words))
    parsed = parse_options(rest, os.environ, parser.flags)
    values = parsed.values
    if not values["network"] and not values["rollup.config"]:
        raise SetupError(
            "flag network or rollup.config is required: name a built-in network or the chain's rollup.json"
        )
    check_l1_options(values)
    for warning in parsed.warnings:
        _warn(warning)
    return Command(own, values, choose_chain(values, warn=_warn, complain=_warn))


def _warn(text: str) -> None:
    print(f"{PROGRAM}: warning: {text}", file=sys.stderr)


class Outputs(NamedTuple):
    """Descriptors for results and for the one line of a failure, apart from the log."""

    results: int
    errors: int

    @classmethod
    def open(cls) -> "Outputs":
        """Our standard output and error, to be inherited by the process that does the work."""
        return cls(os.dup(1), os.dup(2))


def run(command: Command, jobs: Sequence[Row]) -> int:
    """Runs l1, blobs and compute with the rows of the command, the last of which ends it; the exit code."""
    values, chain = command.values, command.chain
    configs = {"l1": l1_config(values, chain), "blobs": blobs_config(values, chain), "compute": ComputeConfig()}
    workers = worker_count(values)
    rows = [row_of(kind, configs[kind.role], workers) for kind in PROCESSES if kind.role in configs]
    level = values["log.level"] if values.given("log.level") else Level.WARN
    settings = NodeSettings(
        version=version(),
        log=LogSettings(level, values["log.format"], values["log.color"], values["log.pid"]),
        runtime_dir=Path(values["runtime.dir"]).absolute() if values["runtime.dir"] else None,
        check=partial(_check, _endpoints(command)),
        log_output=2,
    )
    return run_node([*rows, *jobs], settings)


def _endpoints(command: Command) -> Endpoints:
    values = command.values
    return Endpoints(
        rollup=command.chain.config,
        l1=values["l1"],
        l2="",
        jwt_secret=b"",
        jwt_path="",
        beacon=values["l1.beacon"],
        beacon_header=values["l1.beacon-header"],
        beacon_may_fail=values["l1.beacon.ignore"],
        l1_genesis=False,
    )


async def _check(endpoints: Endpoints) -> None:
    await check_l1(endpoints, PATIENCE)
    if endpoints.beacon is not None:
        await check_beacon(endpoints, PATIENCE)


def address(text: str) -> bytes:
    """An address given as a flag."""
    try:
        found = bytes.fromhex(text.removeprefix("0x"))
    except ValueError:
        found = b""
    if len(found) != 20:
        raise argparse.ArgumentTypeError(f"{text!r} is not an address of 20 bytes in hex")
    return found
