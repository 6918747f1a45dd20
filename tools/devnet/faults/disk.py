"""A small disk for the files of a node, which can be filled.

A tmpfs in a mount namespace of this process alone, or files that may not grow where no file system may be mounted."""

import ctypes
import os
import resource
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

SIZE = 32 << 20
CLONE_NEWNS = 0x0002_0000
MS_REC, MS_PRIVATE, MNT_DETACH = 0x4000, 0x4_0000, 2
CHUNK = 1 << 16
BALLAST = "ballast"


class SmallDisk:
    """A disk of SIZE bytes at `folder` if it `is_mounted`."""

    def __init__(self, folder: Path, is_mounted: bool) -> None:
        self.folder, self.is_mounted = folder, is_mounted
        self._limits: dict[int, tuple[int, int]] = {}

    def fill(self, pids: Iterable[int]) -> None:
        """Leave no byte free. Without a disk of their own, the files of the processes stop growing."""
        if self.is_mounted:
            _fill(self.folder / BALLAST)
            return
        for pid in pids:
            with suppress(ProcessLookupError):
                before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
                self._limits.setdefault(pid, before)
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, before[1]))

    def free(self, pids: Iterable[int]) -> None:
        """Free what was filled, also for those of the processes that have started meanwhile."""
        (self.folder / BALLAST).unlink(missing_ok=True)
        for pid in {*self._limits, *pids} if self._limits else ():
            with suppress(ProcessLookupError):
                hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)[1]
                resource.prlimit(pid, resource.RLIMIT_FSIZE, self._limits.get(pid, (hard, hard)))
        self._limits.clear()


def _fill(path: Path) -> None:
    with path.open("ab", buffering=0) as file:
        size = CHUNK
        while size:
            try:
                file.write(bytes(size))
            except OSError:
                size //= 2


@contextmanager
def small_disk(folder: Path) -> Iterator[SmallDisk]:
    """Yield a small disk at a new folder, as long as the context lasts; then the folder has its logs."""
    folder.mkdir()
    libc = ctypes.CDLL(None, use_errno=True)
    is_mounted = _mount(libc, folder)
    try:
        yield SmallDisk(folder, is_mounted)
    finally:
        if is_mounted:
            logs = {path: path.read_bytes() for path in folder.glob("*.log")}
            libc.umount2(os.fsencode(folder), MNT_DETACH)
            for path, text in logs.items():
                path.write_bytes(text)


def _mount(libc: ctypes.CDLL, folder: Path) -> bool:
    """Mount a tmpfs that only this process and its children see, so that it ends with them."""
    return not (
        libc.unshare(CLONE_NEWNS)
        or libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None)
        or libc.mount(b"none", os.fsencode(folder), b"tmpfs", 0, b"size=%d,mode=0700" % SIZE)
    )
