"""Programs that a server forks, which has imported them once: an import takes longer than what many tests do.

The server is a program of its own: `python -m tests.support.processes.forked_programs`, with a socket as standard
input, and ends with it. It is no part of pytest, whose threads and modules no program has."""

import gc
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Any

from setproctitle import setproctitle

from rollup_node.node.system.process_control import close_all_but
from rollup_node.tools.devnet import fork_server

ROOT = Path(__file__).parents[3]
MAX_MESSAGE = 1 << 18


class ForkServer:
    """The server, until it is closed."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        environment = os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"}
        command = [sys.executable, "-m", "tests.support.processes.forked_programs"]
        self._process = subprocess.Popen(
            command, stdin=theirs.fileno(), cwd="/", env=environment, start_new_session=True
        )
        self.pid = self._process.pid
        theirs.close()

    def close(self) -> None:
        """Ends the server."""
        self._socket.close()
        self._process.wait()

    def reap(self, pid: int) -> int:
        """The exit code of a program that has ended."""
        return self.ask({"reap": pid})

    def ask(self, request: Mapping[str, Any], descriptors: Sequence[int] = ()) -> int:
        """The number that the server answers."""
        socket.send_fds(self._socket, [json.dumps(request).encode()], descriptors)
        return int(self._socket.recv(MAX_MESSAGE))


class ForkedProgram(fork_server.ForkedProgram):
    """A running call of `main` of a module with these words, in a session of its own; the server imports that module
    and `imports` before. Of Popen it has what tests use: standard output and error are pipes, or these descriptors."""

    def __init__(
        self,
        server: ForkServer,
        module: str,
        words: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        *,
        imports: Sequence[str] = (),
        stdout: int = subprocess.PIPE,
        stderr: int = subprocess.PIPE,
        ignored: Sequence[signal.Signals] = (),
    ) -> None:
        self.stdout, out = _stream(stdout)
        self.stderr, err = _stream(stderr)
        request = {"module": module, "words": words, "folder": str(folder), "ignored": ignored}
        pid = server.ask({**request, "environment": dict(environment), "imports": imports}, (out, err))
        os.close(out)
        os.close(err)
        super().__init__(server, pid)


def _stream(wanted: int) -> tuple[IO[bytes] | None, int]:
    """The stream to read a pipe, None without one, and a new descriptor to write to."""
    if wanted != subprocess.PIPE:
        return None, os.dup(wanted)
    reading, writing = os.pipe()
    return os.fdopen(reading, "rb"), writing


# --- the server ----------------------------------------------------------------------------------------------------


def serve() -> None:
    """Forks what it is asked for until the socket is closed."""
    # It finds the place of the title by the environment, which programs replace.
    setproctitle("fork server of tests")
    gc.disable()
    connection = socket.socket(fileno=os.dup(0))
    while True:
        message, descriptors, _, _ = socket.recv_fds(connection, MAX_MESSAGE, 2)
        if not message:
            return
        request = json.loads(message)
        if "reap" in request:
            number = os.waitstatus_to_exitcode(os.waitpid(request["reap"], 0)[1])
        else:
            for name in (request["module"], *request["imports"]):
                importlib.import_module(name)
            gc.freeze()
            if (number := os.fork()) == 0:
                fork_server.run_and_exit(partial(_run, request, *descriptors))
        for descriptor in descriptors:
            os.close(descriptor)
        connection.send(b"%d" % number)


def _run(request: Mapping[str, Any], out: int, err: int) -> int:
    """The program, in its process."""
    os.setsid()
    null = os.open(os.devnull, os.O_RDONLY)
    for number, descriptor in enumerate((null, out, err)):
        os.dup2(descriptor, number)
    close_all_but({0, 1, 2})
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    for number in request["ignored"]:
        signal.signal(number, signal.SIG_IGN)
    gc.enable()
    main: Callable[[Sequence[str]], int] = importlib.import_module(request["module"]).main
    return main(request["words"])


if __name__ == "__main__":
    serve()
