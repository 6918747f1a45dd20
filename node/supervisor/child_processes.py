"""Forked processes: their log lines while they run, their exit codes when they end.

Only a single-threaded process may fork: locks held by other threads would stay locked for ever in the child, and the
kernel ties PR_SET_PDEATHSIG to the forking thread. The end of a child is seen by SIGCHLD and waitpid: not every
container allows a pidfd."""

import gc
import importlib
import os
import selectors
import signal
import sys
import traceback
from collections.abc import Callable, Collection
from functools import partial

import multiprocess
from multiprocess.popen_fork import Popen

from rollup_node.node.system.exit_codes import ExitCode
from rollup_node.node.system.log_pipes import LineReader, Output
from rollup_node.node.system.process_control import STOP_SIGNALS, close_all_but, signal_when_parent_ends
from rollup_node.node.system.process_table import ProcessSpec
from rollup_node.node.system.procfs import read_stat, thread_count
from rollup_node.stages.io.log.logger import Logger
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.log_fields import seconds

FATAL_ENDS = {
    ExitCode.CRITICAL: (Code.CRITICAL, "failed with a critical error"),
    ExitCode.HALT: (Code.PROTOCOL_VERSION, "halted the node"),
    ExitCode.FORK_MISMATCH: (
        Code.FORK_MISMATCH,
        f"found other forks in the execution engine ({Code.FORK_MISMATCH.text})",
    ),
    ExitCode.NETWORK_LEFT: (
        Code.NETWORK_LEFT,
        f"reached the last block of a network that left the OP Stack ({Code.NETWORK_LEFT.text})",
    ),
}
"""The codes and the meaning of the exit codes that end the node."""


class _Fork(Popen):  # type: ignore[misc]
    """A fork without the pipes of multiprocess, which stay open where the fork fails, and are not used here."""

    sentinel = -1

    def _launch(self, process_obj: "_Process") -> None:
        self.pid = os.fork()
        if self.pid == 0:
            code = int(ExitCode.SETUP)
            try:
                code = process_obj._bootstrap()
            finally:
                os._exit(code)


class _Process(multiprocess.context.ForkProcess):  # type: ignore[misc]
    _Popen = staticmethod(_Fork)


class ChildProcess:
    """A running child. `log` is the read end of its log pipe; `start_ticks` and pid identify it (see procfs)."""

    def __init__(self, name: str, body: Callable[[], None], log: int | None, on_exit: Callable[[int], None]) -> None:
        self.name, self.on_exit = name, on_exit
        self.reader = None if log is None else LineReader(log)
        if (threads := thread_count()) != 1:
            raise RuntimeError(f"{threads} threads run in the supervisor: it cannot fork")
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
        try:
            self._process = _Process(target=body, name=name)
            self._process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        self.pid: int = self._process.pid
        stat = read_stat(self.pid)
        self.start_ticks = stat.start_ticks if stat else 0

    @property
    def has_ended(self) -> bool:
        """Whether it has exited; from then on its pid may be that of another process."""
        return self._process.exitcode is not None

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to this process, never to a later one with its pid."""
        if not self.has_ended:
            os.kill(self.pid, number)

    def reap(self) -> int:
        """Wait for the end of the child and return its exit code; negative for a signal."""
        self._process.join()
        code: int = self._process.exitcode
        self._process.close()
        return code


class ChildProcesses:
    """All children of the supervisor.

    `wait` handles events in batches; a batch must start no child, because a new descriptor could take the number of
    one whose event is still to be handled. SIGCHLD must end its waiting, by a descriptor that is watched."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._parent = os.getpid()
        self._selector = selectors.DefaultSelector()
        self._children: set[ChildProcess] = set()

    def watch(self, fd: int, handler: Callable[[], None]) -> None:
        """Make `wait` call `handler` whenever `fd` is readable."""
        self._selector.register(fd, selectors.EVENT_READ, handler)

    def start(
        self,
        name: str,
        body: Callable[[], int],
        keep_fds: Collection[int],
        on_exit: Callable[[int], None],
        *,
        logs: bool = True,
        dies_with_parent: bool = True,
    ) -> ChildProcess:
        """Fork a child that runs `body` with the descriptors `keep_fds`.

        `on_exit` gets its exit code, after all its log lines have been read. Raises OSError when the system cannot
        fork."""
        read, write = os.pipe2(os.O_CLOEXEC) if logs else (None, None)
        try:
            child = ChildProcess(name, partial(self._run, body, keep_fds, write, dies_with_parent), read, on_exit)
        except BaseException:
            if read is not None:
                os.close(read)
            raise
        finally:
            if write is not None:
                os.close(write)
        self._children.add(child)
        if read is not None:
            self._selector.register(read, selectors.EVENT_READ, partial(self._on_lines, child))
        return child

    def wait(self, seconds: float) -> None:
        """Handle the events within that time, at least one batch, and then the children that have ended.

        The first process of a container adopts those whose parents have died; they are collected as well."""
        for key, _ in self._selector.select(seconds):
            key.data()
        for child in [child for child in self._children if child.has_ended]:
            self._on_exit(child)
        own = {child.pid for child in self._children}
        while (pid := _ended_child()) and pid not in own:
            os.waitpid(pid, 0)

    def await_end(self, child: ChildProcess) -> None:
        """Wait for a child without a log that ends now, instead of calling its `on_exit`."""
        self._children.discard(child)
        child.reap()

    def kill_all(self) -> None:
        """Kill all children, when the supervisor itself fails."""
        for child in self._children:
            child.send_signal(signal.SIGKILL)

    def _run(self, body: Callable[[], int], keep_fds: Collection[int], log: int | None, dies_with_parent: bool) -> None:
        code: int = ExitCode.SETUP
        try:
            self._selector.close()
            become_child(self._parent, keep_fds, log, dies_with_parent)
            code = body()
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)

    def _on_lines(self, child: ChildProcess) -> None:
        if child.reader is None or child.reader.closed:
            return
        lines, ended = child.reader.read()
        self._output.write(lines)
        if ended:
            self._close_log(child.reader)

    def _on_exit(self, child: ChildProcess) -> None:
        if child.reader is not None and not child.reader.closed:
            self._output.write(child.reader.finish())
            self._close_log(child.reader)
        self._children.discard(child)
        child.on_exit(child.reap())

    def _close_log(self, reader: LineReader) -> None:
        self._selector.unregister(reader.fd)
        reader.close()


def _ended_child() -> int:
    """Return the pid of a child that has ended and was not waited for, 0 without one."""
    try:
        result = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return 0
    return result.si_pid if result else 0


def become_child(parent: int, keep_fds: Collection[int], log: int | None, dies_with_parent: bool) -> None:
    """Prepare a forked process: standard streams to the log pipe, and no descriptor but 0 to 2 and `keep_fds`.

    It dies with the supervisor if `dies_with_parent`. The stop signals stay blocked until the process handles them."""
    if dies_with_parent:
        signal_when_parent_ends(signal.SIGKILL)
        # The supervisor may have died before.
        if os.getppid() != parent:
            os._exit(ExitCode.SETUP)
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    for fd in (1, 2):
        os.dup2(null if log is None else log, fd)
    close_all_but({0, 1, 2, *keep_fds})


def exit_text(code: int) -> str:
    """Return an exit code as text: `exit code 1`, `signal SIGKILL`."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"signal {signal.Signals(-code).name}"
    except ValueError:
        return f"signal {-code}"


def log_fork_failure(log: Logger, name: str, error: OSError, pause: float) -> None:
    """Log that a process could not be forked, and is after a pause in seconds."""
    code = Code.HOST_LIMIT
    log.error("cannot fork", code=code.text, name=name, error=error, **seconds("again_in", pause), do=code.remedy)


def preload(spec: ProcessSpec) -> None:
    """Import the modules of a process; repeating it is cheap. Garbage collection is off until `freeze_heap`."""
    gc.disable()
    for module in (*spec.preload, spec.build.partition(":")[0]):
        importlib.import_module(module)


FILLING = 64 << 10
"""Bytes of each size of small objects: several times what the imports leave free between theirs."""

_filling: list[object] = []


def freeze_heap() -> None:
    """Leave the present objects alone: pages that are not written stay shared with children.

    They are excluded from garbage collection, which is on after this: imports make much that lives and little garbage,
    so they run without. The room between them is filled, or the next objects of each child would lie scattered over
    all pages."""
    _filling.append([float(number) for number in range(FILLING // 32)])
    for size in range(48, 513, 16):
        _filling.append([bytes(size - sys.getsizeof(b"")) for _ in range(FILLING // size)])
    gc.freeze()
    gc.enable()
