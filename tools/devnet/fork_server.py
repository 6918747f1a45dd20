"""Starts programs by a fork of one process that has imported them all: within milliseconds, with shared memory."""

import gc
import importlib
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn

import msgspec
import setproctitle

from rollup_node.node.system.process_control import close_all_but, signal_when_parent_ends
from rollup_node.node.system.procfs import read_stat, thread_count

PROGRAMS: Mapping[str, str] = MappingProxyType(
    {
        "rollup_node.tools.devnet.l1": "rollup_node.tools.devnet.l1.server",
        "rollup_node.tools.devnet.engine": "rollup_node.tools.devnet.engine.__main__",
        "rollup_node.tools.batcher": "rollup_node.tools.batcher.driver",
        "rollup_node.tools.devnet.conductor": "rollup_node.tools.devnet.conductor",
        "rollup_node.tools.devnet.signer": "rollup_node.tools.devnet.signer",
        "rollup_node.tools.devnet.da_server": "rollup_node.tools.devnet.da_server",
    }
)
"""The module with the function `main` of each program, which is run by `python -m` and its name."""

COMMON: Sequence[str] = ("rollup_node.tools.devnet.l1", "rollup_node.tools.devnet.engine", "rollup_node.tools.batcher")
"""The programs that every network has, which are imported before the first fork."""

MAX_MESSAGE = 1 << 18


class ForkServer:
    """The process that forks, and the connection to it. When it ends, its programs get SIGTERM."""

    def __init__(self, pid: int, connection: socket.socket) -> None:
        self.pid, self._socket = pid, connection
        # At the end of a network a thread stops the programs while a fault may still start one.
        self._lock = threading.Lock()

    def start(self, name: str, module: str, arguments: Sequence[str], log: Path) -> "ForkedProgram":
        """Start a program of PROGRAMS, whose output is appended to `log`. Raises OSError if the fork fails."""
        with log.open("ab") as output:
            title = f"rollup-node devnet: {name}"
            number = output.fileno()
            return ForkedProgram(self, self.fork(PROGRAMS[module], arguments, number, number, title=title))

    def fork(self, module: str, words: Sequence[str], out: int, err: int, **more: Any) -> int:
        """Start `main` of a module with these words, whose output goes to these descriptors; see Request for `more`.

        Returns its process id. Raises OSError if the fork fails."""
        return self._ask(Request(module, list(words), **more), out, err)

    def reap(self, pid: int) -> int:
        """Return the exit code of a program that has ended."""
        try:
            return self._ask(pid)
        except OSError:  # the fork server was killed, and nobody knows
            return -signal.SIGKILL

    def close(self) -> None:
        """End the process."""
        self._socket.close()
        os.waitpid(self.pid, 0)

    def _ask(self, request: "Request | int", *descriptors: int) -> int:
        with self._lock:
            socket.send_fds(self._socket, [msgspec.json.encode(request)], descriptors)
            answer = self._socket.recv(MAX_MESSAGE)
        if not answer:
            raise OSError("the process that forks programs has ended")
        value: int | tuple[int, str] = msgspec.json.decode(answer)
        if not isinstance(value, int):
            raise OSError(*value)
        return value


class Request(msgspec.Struct, frozen=True):
    """A program to fork: `main` of a module, its words and title, and what else to import before.

    Folder, environment and ignored signals are those of the server where it does not say."""

    module: str
    words: list[str]
    title: str = ""
    imports: tuple[str, ...] = ()
    folder: str | None = None
    environment: dict[str, str] | None = None
    ignored: tuple[int, ...] = ()


@contextmanager
def fork_server() -> Iterator[ForkServer | None]:
    """Yield a fork server while the context lasts, to be started before any event loop; it ends with this process.

    None where threads run, as in a debugger: locks that they hold would stay locked in a fork."""
    if thread_count() != 1:
        yield None
        return
    sys.stdout.flush()
    sys.stderr.flush()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        run_and_exit(lambda: _begin(theirs, parent))
    theirs.close()
    server = ForkServer(pid, ours)
    try:
        yield server
    finally:
        server.close()


class ForkedProgram:
    """A program that a fork server has started, with what `subprocess.Popen` has for one.

    Its process id is not given to another process before `poll` or `wait` has seen its end."""

    def __init__(self, server: ForkServer, pid: int) -> None:
        self._server = server
        self.pid = pid
        self.returncode: int | None = None
        try:
            self._descriptor = os.pidfd_open(pid)
        except OSError:  # a container may not allow it
            self._descriptor = -1

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal; None while the program runs."""
        return self._ended_within(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the exit code. Raises subprocess.TimeoutExpired."""
        code = self._ended_within(None if timeout is None else timeout * 1000)
        if code is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
        return code

    def send_signal(self, sig: int) -> None:
        """Send a signal, unless the program has ended."""
        if self.poll() is None:
            os.kill(self.pid, sig)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def _ended_within(self, milliseconds: float | None) -> int | None:
        if self.returncode is None and self._has_ended(milliseconds):
            self.returncode = self._server.reap(self.pid)
            if self._descriptor >= 0:
                os.close(self._descriptor)
        return self.returncode

    def _has_ended(self, milliseconds: float | None) -> bool:
        if self._descriptor >= 0:
            ended = select.poll()
            ended.register(self._descriptor, select.POLLIN)
            return bool(ended.poll(milliseconds))
        end = time.monotonic() + (float("inf") if milliseconds is None else milliseconds / 1000)
        while (stat := read_stat(self.pid)) is not None and stat.state not in "ZX":
            if time.monotonic() >= end:
                return False
            time.sleep(0.01)
        return True


RunningProgram = subprocess.Popen[Any] | ForkedProgram
"""A program that was started."""


def die_with_parent(parent: int) -> None:
    """Has the kernel send SIGTERM to this process, which has just been forked, when its parent ends."""
    signal_when_parent_ends(signal.SIGTERM)
    # It may have ended between the fork and this.
    if os.getppid() != parent:
        os._exit(1)


# --- in the process that forks ---------------------------------------------------------------------------------------


def _begin(connection: socket.socket, parent: int) -> int:
    os.setsid()
    die_with_parent(parent)
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1):
        os.dup2(null, number)
    close_all_but({0, 1, 2, connection.fileno()})
    return serve(connection, "rollup-node devnet: fork server", [PROGRAMS[name] for name in COMMON])


def serve(connection: socket.socket, title: str, imports: Sequence[str] = ()) -> int:
    """Fork what it is asked for until the connection is closed."""
    # It finds the place of the title by the environment, which programs may replace.
    setproctitle.setproctitle(title)
    gc.disable()
    for name in imports:
        importlib.import_module(name)
    while True:
        message, descriptors, _, _ = socket.recv_fds(connection, MAX_MESSAGE, 2)
        if not message:
            return 0
        request = msgspec.json.decode(message, type=Request | int)
        try:
            answer: int | tuple[int, str] = _reap(request) if isinstance(request, int) else _fork(request, *descriptors)
        except OSError as error:
            answer = (error.errno or 0, error.strerror or str(error))
        for descriptor in descriptors:
            os.close(descriptor)
        connection.send(msgspec.json.encode(answer))


def _reap(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _fork(request: Request, out: int, err: int) -> int:
    for name in (request.module, *request.imports):
        importlib.import_module(name)
    gc.freeze()
    server = os.getpid()
    pid = os.fork()
    if pid == 0:
        run_and_exit(lambda: _run(request, out, err, server))
    return pid


def _run(request: Request, out: int, err: int, server: int) -> int:
    """Return the program, in its process."""
    os.setsid()
    die_with_parent(server)
    null = os.open(os.devnull, os.O_RDONLY)
    for number, descriptor in enumerate((null, out, err)):
        os.dup2(descriptor, number)
    close_all_but({0, 1, 2})
    if request.title:
        setproctitle.setproctitle(request.title)
    if request.folder is not None:
        os.chdir(request.folder)
    if request.environment is not None:
        os.environ.clear()
        os.environ.update(request.environment)
    for ignored in request.ignored:
        signal.signal(ignored, signal.SIG_IGN)
    gc.enable()
    main: Callable[[Sequence[str]], int] = importlib.import_module(request.module).main
    return main(request.words)


def run_and_exit(body: Callable[[], int]) -> NoReturn:
    """Run the body of a forked process and end it; nothing of what it was forked from runs in it."""
    code = 1
    try:
        code = body()
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except KeyboardInterrupt:
        code = 130
    except BaseException:
        traceback.print_exc()
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except OSError:  # the disk of the log is full
            code = code or 1
        finally:
            os._exit(code)
