"""Programs that a server forks, which has imported them once: an import takes longer than what many tests do.

The server is a program of its own: `python -m tests.support.processes.forked_programs`, with a socket as standard
input, and ends with it. It is no part of pytest, whose threads and modules no program has."""

import functools
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

from rollup_node.tools.devnet import fork_server
from rollup_node.tools.devnet.fork_server import ForkServer

ROOT = Path(__file__).parents[3]
TOY_NODE = "tests.support.processes.toy_node"
COMMANDS = {**fork_server.PROGRAMS, "rollup_node": "tests.support.processes.forked_node", TOY_NODE: TOY_NODE}
"""The module with the function `main` of each program, by the name after `python -m`."""
NUMBERS = "ROLLUP_NODE_TEST_NUMBERS"

shared = ExitStack()
"""Ends the shared server."""


@contextmanager
def spawned_fork_server() -> Iterator[ForkServer]:
    """Yield a server while the context lasts."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    environment = os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"}
    command = [sys.executable, "-m", "tests.support.processes.forked_programs"]
    process = subprocess.Popen(command, stdin=theirs.fileno(), cwd="/", env=environment, start_new_session=True)
    theirs.close()
    try:
        yield ForkServer(process.pid, ours)
    finally:
        ours.close()
        process.wait()


@functools.cache
def shared_fork_server() -> ForkServer:
    """Return the server of this process, which is started at the first call."""
    return shared.enter_context(spawned_fork_server())


class ForkedProgram(fork_server.ForkedProgram):
    """A running call of `main` of a module with these words; see fork_server.Request for `more`.

    Of Popen it has what tests use: standard output and error are pipes, or these descriptors; it has no input."""

    stdin: IO[bytes] | None = None

    def __init__(
        self,
        server: ForkServer,
        module: str,
        words: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        *,
        stdout: int = subprocess.PIPE,
        stderr: int = subprocess.PIPE,
        **more: Any,
    ) -> None:
        self.stdout, out = _stream(stdout)
        self.stderr, err = _stream(stderr)
        pid = server.fork(module, words, out, err, folder=str(folder), environment=dict(environment), **more)
        os.close(out)
        os.close(err)
        super().__init__(server, pid)


def _stream(wanted: int) -> tuple[IO[bytes] | None, int]:
    """Return the stream to read a pipe, None without one, and a new descriptor to write to."""
    if wanted != subprocess.PIPE:
        return None, os.dup(wanted)
    reading, writing = os.pipe()
    return os.fdopen(reading, "rb"), writing


if __name__ == "__main__":
    fork_server.serve(socket.socket(fileno=os.dup(0)), "fork server of tests")
