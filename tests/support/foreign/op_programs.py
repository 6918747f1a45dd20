"""Programs of the OP Stack that others wrote, as subprocesses of a test: op-node, op-supernode, kona-node, op-batcher,
op-proposer, op-geth and op-reth."""

import os
import shutil

import pytest

from tests.support.processes.programs import Program

VARIABLES = {
    "op-node": "OP_NODE",
    "op-supernode": "OP_SUPERNODE",
    "op-batcher": "OP_BATCHER",
    "op-proposer": "OP_PROPOSER",
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


class ForeignProgram(Program):
    """A binary as a program: the path takes the place of the module."""

    @staticmethod
    def _start_of_command(module: str) -> tuple[str, ...]:
        return (module,)
