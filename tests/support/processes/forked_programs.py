"""Programs that a server forks, which has imported them once: an import takes longer than what many tests do.

The server is a program of its own: `python -m tests.support.processes.forked_programs`, with a socket as standard
input, and ends with it. It is no part of pytest, whose threads and modules no program has."""

import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from setproctitle import setproctitle

ROOT = Path(__file__).parents[3]
MAX_MESSAGE = 1 << 18
MAX_FD = 1 << 20


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

    def ask(self, request: Mapping[str, Any], descriptors: Sequence[int] = ()) -> int:
        """The number that the server answers."""
        socket.send_fds(self._socket, [json.dumps(request).encode()], descriptors)
        return int(self._socket.recv(MAX_MESSAGE))


class ForkedProgram:
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
        self._server = server
        self.returncode: int | None = None
        self.stdout, out = _stream(stdout)
        self.stderr, err = _stream(stderr)
        request = {"module": module, "words": words, "folder": str(folder), "ignored": ignored}
        self.pid = server.ask({**request, "environment": dict(environment), "imports": imports}, (out, err))
        os.close(out)
        os.close(err)
        self._descriptor = os.pidfd_open(self.pid)

    def poll(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        return self._ended_within(0)

    def wait(self, timeout: float | None = None) -> int:
        """Waits for the exit code. Raises subprocess.TimeoutExpired."""
        code = self._ended_within(None if timeout is None else timeout * 1000)
        if code is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
        return code

    def send_signal(self, number: int) -> None:
        """Sends a signal, unless it has ended."""
        if self.poll() is None:
            signal.pidfd_send_signal(self._descriptor, number)

    def kill(self) -> None:
        """Kills it, unless it has ended."""
        self.send_signal(signal.SIGKILL)

    def _ended_within(self, milliseconds: float | None) -> int | None:
        if self.returncode is None:
            ended = select.poll()
            ended.register(self._descriptor, select.POLLIN)
            if ended.poll(milliseconds):
                self.returncode = self._server.ask({"reap": self.pid})
                os.close(self._descriptor)
        return self.returncode


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
                _run(request, *descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        connection.send(b"%d" % number)


def _run(request: Mapping[str, Any], out: int, err: int) -> None:
    """The program, in its process."""
    code = 1
    try:
        os.setsid()
        null = os.open(os.devnull, os.O_RDONLY)
        for number, descriptor in enumerate((null, out, err)):
            os.dup2(descriptor, number)
        os.closerange(3, MAX_FD)
        os.chdir(request["folder"])
        os.environ.clear()
        os.environ.update(request["environment"])
        for number in request["ignored"]:
            signal.signal(number, signal.SIG_IGN)
        gc.enable()
        code = importlib.import_module(request["module"]).main(request["words"])
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    serve()
