"""Programs of the OP Stack that others wrote, as subprocesses of a test: op-node, op-supernode, kona-node, op-batcher,
op-proposer, op-challenger, op-dispute-mon, op-geth and op-reth."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from rollup_node.stages.protocol.config_json import parse_rollup_config
from tests.support.processes.extra_node import LocalNetwork, network_options
from tests.support.processes.programs import Program
from tests.support.servers.loopback import own_address

VARIABLES = {
    "op-node": "OP_NODE",
    "op-supernode": "OP_SUPERNODE",
    "op-batcher": "OP_BATCHER",
    "op-proposer": "OP_PROPOSER",
    "op-challenger": "OP_CHALLENGER",
    "op-dispute-mon": "OP_DISPUTE_MON",
    "op-geth": "OP_GETH",
    "op-reth": "OP_RETH",
    "kona-node": "KONA_NODE",
}
"""The environment variable with the path of each program, which is otherwise searched on PATH."""


def find_program(name: str) -> str:
    """Return the path of a program. Skips the test with the reason where it is not installed."""
    variable = VARIABLES[name]
    environ = os.environ.get(variable)
    program = shutil.which(environ or name)
    # A path that was given and is wrong must not look like a program that is absent.
    assert program or not environ, f"{variable}={environ}: no such program"
    if program is None:
        pytest.skip(f"{name} is not on PATH and {variable} does not name it")
    return program


def first_option(binary: str, *names: str) -> str:
    """Return the first of these options that a program has: newer ones come first, the last is not looked for."""
    told = subprocess.run([binary, "--help"], capture_output=True, text=True, timeout=20, check=True).stdout
    return next((name for name in names if f"--{name} " in told), names[-1])


class ForeignProgram(Program):
    """A binary as a program: the path takes the place of the module."""

    @staticmethod
    def _start_of_command(module: str) -> tuple[str, ...]:
        return (module,)


def words(options: Mapping[str, object]) -> list[str]:
    """Return a command line."""
    return [f"--{name}={value}" for name, value in options.items()]


def op_node_options(net: LocalNetwork, engine: str, port: int) -> dict[str, str]:
    """Return the command line of op-node without P2P, on the network's L1 and an engine of its own."""
    config = parse_rollup_config(Path(net.network["rollup"]).read_bytes()).config
    interop = {"interop.dependency-set": str(net.root / "dependency-set.json")} if "lagoon" in config.fork_times else {}
    return interop | {
        **{name: str(value) for name, value in network_options(net).items()},
        "l1.epoch-poll-interval": "2s",
        "l2": engine,
        "rpc.addr": own_address(),
        "rpc.port": str(port),
        "p2p.disable": "true",
    }
