"""What the processes of a test leave behind."""

import contextlib
import os
import re
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from rollup_node.tools.devnet.fork_server import RunningProgram


class Leftovers:
    """A folder for the processes of one test, and what they leave behind.

    Processes are recognised by their working directory, so they are started with `cwd=leftovers.folder` and
    `env=leftovers.environment()`; the files they create belong below the folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.temporary = folder / "t"
        self.temporary.mkdir()
        self.children: list[RunningProgram] = []
        self._shared_memory = self._in_shared_memory()

    def environment(self, **more: str) -> dict[str, str]:
        """Return the environment for a process of the test: all temporary files go below the folder."""
        without = {name: value for name, value in os.environ.items() if name != "XDG_RUNTIME_DIR"}
        return {**without, "TMPDIR": str(self.temporary), **more}

    def processes(self) -> list[str]:
        """Return the running processes of the test: pid and command line of each."""
        result = []
        for process in _other_processes():
            with contextlib.suppress(OSError):
                if self._is_of_test(process):
                    title = (process / "cmdline").read_bytes().rstrip(b"\0").replace(b"\0", b" ")
                    result.append(f"{process.name} {title.decode(errors='replace')}")
        return result

    def sockets(self) -> list[str]:
        """Return the Unix sockets below the folder, as the kernel lists them and as files."""
        lines = Path("/proc/net/unix").read_text().splitlines()
        bound = {line.split()[-1] for line in lines if str(self.folder) in line}
        files = (Path(folder) / name for folder, _, names in os.walk(self.folder) for name in names)
        return sorted(bound | {str(path) for path in files if path.is_socket()})

    def all(self) -> list[str]:
        """Everything that must not exist after the test."""
        memory = [str(path) for path in self._new_shared_memory()]
        temporary = [str(path) for path in self.temporary.iterdir()]
        return [*self.processes(), *self.sockets(), *memory, *temporary]

    def wait_until_gone(self) -> list[str]:
        """Wait until nothing is left; what is still there after a time."""
        deadline = time.monotonic() + 20.0
        while (left := self.all()) and time.monotonic() < deadline:
            time.sleep(0.05)
        return left

    def kill(self) -> None:
        """Kills every process of the test, and waits for those that the test started: a failed test does not."""
        for line in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(line.split()[0]), signal.SIGKILL)
        for child in self.children:
            child.wait()

    def _is_of_test(self, process: Path) -> bool:
        return f"{os.readlink(process / 'cwd')}/".startswith(f"{self.folder}/")

    def _new_shared_memory(self) -> list[Path]:
        """Return what is new of named shared memory, but for what processes of other tests have mapped, which run at
        the same time. A semaphore is mapped under the name that it had before its own: inodes are compared."""
        new = [Path("/dev/shm", name) for name in sorted(self._in_shared_memory() - self._shared_memory)]
        elsewhere = set()
        for process in _other_processes() if new else ():
            with contextlib.suppress(OSError):
                if not self._is_of_test(process):
                    mapped = re.findall(r" (\d+) +/dev/shm/", (process / "maps").read_text())
                    elsewhere |= {int(inode) for inode in mapped}
        return [path for path in new if _inode(path) not in elsewhere | {None}]

    @staticmethod
    def _in_shared_memory() -> set[str]:
        """Named shared memory of the kinds that Python programs create; that of other programs is ignored."""
        kinds = ("rollup", "psm_", "pym-", "sem.")
        return (
            {name for name in os.listdir("/dev/shm") if name.startswith(kinds)} if os.path.isdir("/dev/shm") else set()
        )


def _other_processes() -> Iterator[Path]:
    """Return the folders in /proc of all processes but this one."""
    return (Path("/proc", name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid())


def _inode(path: Path) -> int | None:
    with contextlib.suppress(OSError):
        return path.stat().st_ino
    return None


@contextlib.contextmanager
def watched_folder() -> Iterator[Leftovers]:
    """Yield a folder for processes, which is removed at the end. Fails when they have left anything."""
    folder = Path(tempfile.mkdtemp(prefix="rn-"))
    leftovers = Leftovers(folder)
    try:
        yield leftovers
        left = leftovers.wait_until_gone()
        assert not left, f"left behind: {left}"
    finally:
        leftovers.kill()
        shutil.rmtree(folder, ignore_errors=True)
