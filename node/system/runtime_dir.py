"""The runtime directory: everything that a running node keeps in the file system while it runs.

    lock             held by the supervisor
    processes.json   the processes, rewritten at each change
    aside.json       the chains that do not run for now, and why, in a node of several
    ipc/             the sockets, private
    metrics/         the metrics of each process as text
    profiles/        requests for profiles, and the profiles of each process
    state/           what the admin API has set about the sequencer of each chain, and the newest proven L1 root
    rpc.url          where the RPC server listens
    end              why the node ends, of the process that ends it; end.CHAIN for those of one of several chains
    reload.json      what the last reload of the options did

A directory whose supervisor is dead is swept: its remaining processes are killed, its files removed. Therefore a
directory, a folder in it or a list of processes that somebody else may have made is refused."""

import contextlib
import errno
import fcntl
import fnmatch
import os
import secrets
import signal
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from rollup_node.node.system.exit_codes import SetupError
from rollup_node.node.system.procfs import read_stat, user_of
from rollup_node.stages.io.files.private_files import (
    open_private_file,
    open_private_folder,
    read_private_file,
    replace_private_file,
)
from rollup_node.stages.io.task import ChainAside, ProcessEntry
from rollup_node.stages.protocol.errors import DECODE_ERRORS

LOCK = "lock"
PROCESSES = "processes.json"
SOCKETS = "ipc"
METRICS = "metrics"
PROFILES = "profiles"
STATE = "state"
RPC_URL = "rpc.url"
ASIDE = "aside.json"
END = "end"
RELOAD = "reload.json"

FOLDERS = {SOCKETS: "*.sock", METRICS: "*.prom*", PROFILES: "*.profile*", STATE: "*.state*"}
"""The folders, and which files in them are the node's."""

FILES = tuple(f"{name}{end}" for name in (PROCESSES, ASIDE, RPC_URL, END, RELOAD) for end in ("", ".new"))

PUBLIC_MODE = 0o644
"""Of processes.json and aside.json, for operators who are not the node's user."""

MAX_PROCESSES_BYTES = 1 << 20
MAX_END_BYTES = 1 << 16

SOCKET_PATH_LIMIT = 107
"""The longest path of a Unix socket, in bytes."""

LOCK_TIMEOUT = 1.0
"""Seconds to wait for the sweeper of a killed node."""


class DirectoryGoneError(SetupError):
    """The directory is missing, or was removed meanwhile."""


class DirectoryInUseError(SetupError):
    """Another node uses the directory."""


def sequencer_state(directory: Path, group: str) -> Path:
    """Return the file of a chain's sequencer in a runtime directory; `group` is empty for the only chain."""
    return directory / STATE / f"sequencer{f'.{group}' if group else ''}.state"


def kept_root(directory: Path) -> Path:
    """Return the file of the newest proven L1 root, where `l1.checkpoint.path` names none [LCP13]."""
    return directory / STATE / "l1.state"


@dataclass
class RuntimeDirectory:
    """A directory locked by this node; `created` if this node created it."""

    path: Path
    created: bool
    lock: int

    @property
    def sockets(self) -> Path:
        """The folder of the sockets."""
        return self.path / SOCKETS

    @property
    def metrics(self) -> Path:
        return self.path / METRICS

    @property
    def profiles(self) -> Path:
        return self.path / PROFILES

    def end(self, group: str) -> Path:
        """Return the file for why a process of the group ends the node or sets its chain aside."""
        return self.path / end_file(group)

    @property
    def reload(self) -> Path:
        """The file for the result of a reload."""
        return self.path / RELOAD

    def read_end(self, group: str) -> str:
        """Return why a process of the group ends the node or sets its chain aside, empty if it has not reported it."""
        with contextlib.suppress(OSError), _opened(self.path) as directory:
            return read_private_file(end_file(group), MAX_END_BYTES, directory).decode(errors="replace")
        return ""

    def write_processes(self, entries: Iterable[ProcessEntry]) -> None:
        """Replace processes.json."""
        self._write(PROCESSES, list(entries))

    def write_aside(self, chains: Iterable[ChainAside]) -> None:
        """Replace aside.json."""
        self._write(ASIDE, list(chains))

    def _write(self, name: str, entries: list[Any]) -> None:
        data = msgspec.json.format(msgspec.json.encode(entries), indent=2)
        replace_private_file(self.path / name, data, PUBLIC_MODE)

    def remove(self) -> None:
        """Remove the files of the node, and the directory itself if the node created it."""
        remove(self.path, self.created)
        os.close(self.lock)


def end_file(group: str) -> str:
    """Return the name of the file `end` for the processes of a group."""
    return f"{END}.{group}" if group else END


def runtime_path(wanted: str | None = None) -> Path:
    """Return the wanted directory, or an unused one in XDG_RUNTIME_DIR or the system's folder for temporary files."""
    if wanted:
        return Path(wanted).absolute()
    base = os.environ.get("XDG_RUNTIME_DIR", "")
    usable = os.path.isdir(base) and os.access(base, os.W_OK | os.X_OK)
    return Path(base if usable else tempfile.gettempdir()).absolute() / f"rollup-node-{secrets.token_hex(6)}"


def open_runtime_directory(path: Path, longest_socket: int) -> RuntimeDirectory:
    """Create or take over the runtime directory; `longest_socket` is the length of the longest name of a socket.

    Raises SetupError when it cannot be used, DirectoryInUseError when another node uses it."""
    created = _create(path, longest_socket)
    try:
        lock = take_lock(path, LOCK_TIMEOUT)
    except DirectoryGoneError:
        # The sweeper of a node that was killed has removed it since.
        return open_runtime_directory(path, longest_socket)
    try:
        sweep(path)
        _create_folders(path)
    except OSError as error:
        raise SetupError(f"runtime directory {path} cannot be used: {_reason(error, path)}") from None
    return RuntimeDirectory(path, created, lock)


def _create_folders(path: Path) -> None:
    with _opened(path) as directory:
        for name in FOLDERS:
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, 0o700, dir_fd=directory)
            with _opened(name, directory) as folder:
                os.fchmod(folder, 0o700)


@contextlib.contextmanager
def _opened(path: str | Path, folder: int | None = None) -> Iterator[int]:
    """Yield a folder of this node, open."""
    descriptor = open_private_folder(path, folder)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _reason(error: OSError, path: Path) -> str:
    """Return what is wrong, with the file in the directory if it is one."""
    text = error.strerror or str(error)
    return text if error.filename in (None, str(path)) else f"{path / error.filename}: {text}"


def _create(path: Path, longest_socket: int) -> bool:
    """Create the directory, if there is none."""
    room = SOCKET_PATH_LIMIT - longest_socket - len(SOCKETS) - 2
    if len(os.fsencode(path)) > room:
        raise SetupError(f"runtime directory {path} is too long: sockets allow {room} bytes, give a shorter path")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(mode=0o700)
    except FileExistsError:
        if not path.is_dir():
            raise SetupError(f"runtime directory {path} is not a directory: give another --runtime.dir") from None
        return False
    except OSError as error:
        raise SetupError(f"runtime directory {path} cannot be created: {error.strerror}") from None
    return True


def take_lock(path: Path, timeout: float = 0.0) -> int:
    """Lock a directory; the descriptor of the lock, which holds it until it is closed. Waits up to `timeout` seconds.

    Raises DirectoryInUseError when another process holds it, SetupError when the directory cannot be used or may be
    controlled by somebody else."""
    deadline = time.monotonic() + timeout
    while True:
        try:
            with _opened(path) as directory:
                fd = open_private_file(LOCK, os.O_RDWR | os.O_CREAT, folder=directory)
        except OSError as error:
            kind = DirectoryGoneError if isinstance(error, FileNotFoundError) else SetupError
            raise kind(f"directory {path} cannot be used: {_reason(error, path)}") from None
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(fd, 32, 0).decode("ascii", "replace").strip()
            os.close(fd)
            if time.monotonic() < deadline:
                time.sleep(0.02)
                continue
            raise DirectoryInUseError(
                f"directory {path} is in use by another node (pid {holder or 'unknown'}): stop it or give another one"
            ) from None
        if _is_same_file(path / LOCK, fd):
            os.ftruncate(fd, 0)
            os.pwrite(fd, b"%d\n" % os.getpid(), 0)
            return fd
        os.close(fd)


def _is_same_file(path: Path, fd: int) -> bool:
    try:
        return os.path.samestat(os.lstat(path), os.fstat(fd))
    except OSError:
        return False


def remove(path: Path, directory_too: bool) -> None:
    """Sweep a directory and remove its lock, which must be held, and the directory if wanted. Raises as `sweep`."""
    sweep(path)
    (path / LOCK).unlink(missing_ok=True)
    if directory_too:
        with contextlib.suppress(OSError):
            path.rmdir()


def sweep(path: Path) -> None:
    """Kill the processes that processes.json names and remove the files of the node. The lock must be held.

    Raises UnsafeFileError when somebody else may control the directory or a folder in it."""
    for entry in read_processes(path):
        if entry.pid != os.getpid():
            _kill(entry)
    with _opened(path) as directory:
        for name, pattern in FOLDERS.items():
            _sweep_folder(directory, name, pattern)
        for name in (*FILES, *fnmatch.filter(os.listdir(directory), end_file("*"))):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=directory)


def _sweep_folder(directory: int, name: str, pattern: str) -> None:
    try:
        with _opened(name, directory) as folder:
            for file in fnmatch.filter(os.listdir(folder), pattern):
                with contextlib.suppress(OSError):
                    os.unlink(file, dir_fd=folder)
        os.rmdir(name, dir_fd=directory)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTEMPTY):
            raise


def read_processes(path: Path) -> list[ProcessEntry]:
    """Return the entries of processes.json; None if it is absent, damaged, or writable by others."""
    try:
        with _opened(path) as directory:
            data = read_private_file(PROCESSES, MAX_PROCESSES_BYTES, directory)
        return msgspec.json.decode(data, type=list[ProcessEntry])
    except (OSError, *DECODE_ERRORS):
        return []


def _kill(entry: ProcessEntry) -> None:
    """Kill a process of this user, unless another one has got its pid."""
    with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
        kill = partial(os.kill, entry.pid)
        # Where the system has no pidfd or does not allow it, the pid could change hands after the look at it.
        with contextlib.suppress(AttributeError, OSError):
            pidfd = os.pidfd_open(entry.pid)
            stack.callback(os.close, pidfd)
            signal.pidfd_send_signal(pidfd, 0)
            kill = partial(signal.pidfd_send_signal, pidfd)
        stat = read_stat(entry.pid)
        same = stat is not None and stat.start_ticks == entry.start_ticks
        if same and user_of(entry.pid) == os.geteuid():
            kill(signal.SIGKILL)
