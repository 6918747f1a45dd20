"""What the kernel says of the programs of a soak: memory, descriptors, processes left behind."""

import ctypes
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from rollup_node.node.system.procfs import read_proportional_memory

PR_SET_CHILD_SUBREAPER = 36
LISTENING = "0A"
CHUNK = 1 << 20
SHARED_FOLDER = b"/dev/shm/"
PATIENCE = 3
"""A zombie or an orphan that so many checks in a row find is left behind."""


class Usage(NamedTuple):
    """What some processes use together.

    Memory in MB of PSS, open descriptors, shared memory segments (memfds and files in /dev/shm), and their number."""

    memory: float
    descriptors: int
    segments: int
    processes: int


class Relative(NamedTuple):
    """A process below this one: its parent, its state as of proc(5), and its start in clock ticks."""

    pid: int
    parent: int
    state: str
    ticks: int


def usage(pids: Iterable[int]) -> Usage:
    """Return what processes use now; one that has ended uses nothing."""
    memory, descriptors, count = 0, 0, 0
    segments: set[tuple[int, int]] = set()
    for pid in pids:
        used = read_proportional_memory(pid)
        if used is None:
            continue
        memory, count = memory + used, count + 1
        with suppress(OSError):
            for name in os.listdir(f"/proc/{pid}/fd"):
                descriptors += 1
                with suppress(OSError):
                    path = f"/proc/{pid}/fd/{name}"
                    if os.readlink(path).startswith(("/memfd:", "/dev/shm/")):
                        result = os.stat(path)
                        segments.add((result.st_dev, result.st_ino))
    return Usage(memory / 1e6, descriptors, len(segments), count)


def adopt_orphans() -> None:
    """Make this process the parent of every descendant whose parent ends, so that none can hide."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def descendants(root: int) -> dict[int, Relative]:
    """All processes below one, by their pids."""
    result = {item.pid: item for item in _processes()}
    below: dict[int, Relative] = {}
    level = {root}
    while level:
        level_below = {pid: item for pid, item in result.items() if item.parent in level and pid not in below}
        below |= level_below
        level = set(level_below)
    return below


def _processes() -> Iterable[Relative]:
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        with suppress(OSError, IndexError, ValueError):
            fields = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
            yield Relative(int(name), int(fields[1]), fields[0], int(fields[19]))


class Family:
    """Watches the descendants of this process for zombies and orphans.

    `known` are the pids of its own children, which it waits for elsewhere."""

    def __init__(self) -> None:
        self._seen: dict[tuple[int, int], int] = {}

    def check(self, known: Iterable[int]) -> list[str]:
        """Return what has been left behind since the last check: each is named once."""
        own, kept = os.getpid(), set(known)
        odd: dict[tuple[int, int], str] = {}
        for descendant in descendants(own).values():
            if descendant.parent == own and descendant.pid not in kept:
                if descendant.state == "Z":
                    with suppress(ChildProcessError):
                        os.waitpid(descendant.pid, os.WNOHANG)
                else:
                    odd[descendant.pid, descendant.ticks] = (
                        f"process {descendant.pid} ({title(descendant.pid)}) outlives its parent"
                    )
            elif descendant.parent != own and descendant.state == "Z":
                odd[descendant.pid, descendant.ticks] = (
                    f"process {descendant.pid} ({title(descendant.pid)}) is a zombie of {descendant.parent}"
                )
        self._seen = {key: self._seen.get(key, 0) + 1 for key in odd}
        return [text for key, text in odd.items() if self._seen[key] == PATIENCE]

    def left(self) -> list[int]:
        """Return the pids of the orphans now, without those that have ended, which are waited for."""
        self.check(())
        return [descendant.pid for descendant in descendants(os.getpid()).values() if descendant.state != "Z"]


def title(pid: int) -> str:
    """Return the command line of a process, shortened, or its name."""
    with suppress(OSError):
        text = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        return text[:80] or Path(f"/proc/{pid}/comm").read_text().strip()
    return "ended"


def sockets_below(folder: Path) -> list[str]:
    """Return the Unix sockets in files below a folder, and those that are bound to a path there."""
    lines = Path("/proc/net/unix").read_text().splitlines()[1:]
    bound = {fields[7] for line in lines if len(fields := line.split(maxsplit=7)) == 8 and str(folder) in fields[7]}
    for path in folder.rglob("*"):
        with suppress(OSError):
            if stat.S_ISSOCK(path.lstat().st_mode):
                bound.add(str(path))
    return sorted(bound)


def listening(ports: Iterable[int]) -> list[int]:
    """Those of the TCP ports at which a program listens."""
    wanted, result = set(ports), set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with suppress(OSError):
            for line in Path(table).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == LISTENING:
                    result.add(int(fields[1].rpartition(":")[2], 16))
    return sorted(wanted & result)


def shared_files(pids: Iterable[int]) -> set[str]:
    """Return the files in /dev/shm that processes have mapped."""
    result = set()
    for pid in pids:
        with suppress(OSError):
            for line in Path(f"/proc/{pid}/maps").read_bytes().splitlines():
                _, mark, name = line.partition(SHARED_FOLDER)
                if mark:
                    result.add((mark + name).decode(errors="replace"))
    return result


class LineCount:
    """Counts the lines that are appended to a file."""

    def __init__(self, path: Path) -> None:
        self._path, self._offset = path, 0

    def more(self) -> int:
        """Return the lines since the last call; those of a file that was replaced from its beginning on."""
        count = 0
        with suppress(OSError), self._path.open("rb") as file:
            if os.fstat(file.fileno()).st_size < self._offset:
                self._offset = 0
            file.seek(self._offset)
            while chunk := file.read(CHUNK):
                count += chunk.count(b"\n")
                self._offset += len(chunk)
        return count
