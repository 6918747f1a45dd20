"""A folder for the processes of a test, and what they leave behind: processes, sockets, shared memory, files."""

import contextlib
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path


class Leftovers:
    """A folder for the processes of one test, and the search for what they leave behind.

    A process belongs to the test by its working directory: start it with `cwd=leftovers.folder` and
    `env=leftovers.environment()`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.temporary = folder / "t"
        self.temporary.mkdir()
        self._shared_memory = self._in_shared_memory()

    def environment(self, **more: str) -> dict[str, str]:
        """The environment of a process of the test, with its temporary files below the folder."""
        without = {name: value for name, value in os.environ.items() if name != "XDG_RUNTIME_DIR"}
        return {**without, "TMPDIR": str(self.temporary), **more}

    def processes(self) -> list[str]:
        """The running processes of the test by pid and command line."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                with contextlib.suppress(OSError):
                    if Path(os.readlink(entry / "cwd")).is_relative_to(self.folder):
                        title = (entry / "cmdline").read_bytes().rstrip(b"\0").replace(b"\0", b" ")
                        found.append(f"{entry.name} {title.decode(errors='replace')}")
        return found

    def sockets(self) -> list[str]:
        """The Unix sockets below the folder, bound ones and files."""
        lines = Path("/proc/net/unix").read_text().splitlines()
        bound = {line.split()[-1] for line in lines if str(self.folder) in line}
        files = (Path(folder) / name for folder, _, names in os.walk(self.folder) for name in names)
        return sorted(bound | {str(path) for path in files if path.is_socket()})

    def all(self) -> list[str]:
        """Everything that is left."""
        memory = [f"/dev/shm/{name}" for name in sorted(self._in_shared_memory() - self._shared_memory)]
        temporary = [str(path) for path in self.temporary.iterdir()]
        return [*self.processes(), *self.sockets(), *memory, *temporary]

    def wait_until_gone(self, seconds: float = 20.0) -> list[str]:
        """Waits until nothing is left; what is left after `seconds`."""
        deadline = time.monotonic() + seconds
        while (left := self.all()) and time.monotonic() < deadline:
            time.sleep(0.02)
        return left

    def kill(self) -> None:
        """Kills every process of the test."""
        for line in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(line.split()[0]), signal.SIGKILL)

    @staticmethod
    def _in_shared_memory() -> set[str]:
        """The named shared memory of Python programs."""
        kinds = ("rollup", "psm_", "pym-", "sem.")
        return (
            {name for name in os.listdir("/dev/shm") if name.startswith(kinds)} if os.path.isdir("/dev/shm") else set()
        )


@contextlib.contextmanager
def watched_folder() -> Iterator[Leftovers]:
    """A folder for processes that is removed at the end. Raises AssertionError where something is left."""
    folder = Path(tempfile.mkdtemp(prefix="rn-"))
    watch = Leftovers(folder)
    try:
        yield watch
        left = watch.wait_until_gone()
        assert not left, f"left behind: {left}"
    finally:
        watch.kill()
        shutil.rmtree(folder, ignore_errors=True)
