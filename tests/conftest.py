"""Fixtures for all tests: the shared real data, where it is at hand, and what processes leave behind."""

import contextlib
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from rollup_node.stages.io import log

ROOT = Path(__file__).parent.parent
# Whatever a test starts, no packet of its peer-to-peer stack leaves the loopback interface, and no port is shared.
os.environ["NODE_P2P_NETRESTRICT"] = "127.0.0.0/8"
os.environ.setdefault("NODE_P2P_LISTEN_TCP_PORT", "0")
# Compiled once, not by each of the workers and programs that start.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# How long an example takes says nothing on a machine that does other work beside the tests.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")
LOG_AT_FIRST = log.configuration()
TOGETHER = frozenset(
    f"tests/{name}.py"
    for name in (
        *("actions/test_running_network", "chaos/test_kills", "chaos/test_peers"),
        *("node/commands/test_batches", "node/test_whole_node"),
        "test_architecture",
    )
)
RECURSION_LIMIT = sys.getrecursionlimit()


def pytest_runtest_setup() -> None:
    """py-ecc raises the limit for the whole process, and deeply nested JSON would then overflow the C stack. A test
    that configures the log does so for the whole process as well."""
    sys.setrecursionlimit(RECURSION_LIMIT)
    log.configure(*LOG_AT_FIRST)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """More than there are cores: the tests that run programs mostly wait for them."""
    return 1 + len(os.sched_getaffinity(0)) * 3 // 2


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keeps the tests of a file that share running programs on one worker; the others go wherever there is room."""
    if config.getoption("dist") != "load":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            return file if file in TOGETHER else nodeid

    return Scheduling(config, log)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real chain data beside the checkout, or a skip with the reason."""
    places = [Path(os.environ["ROLLUP_NODE_SHARED_DATA"])] if "ROLLUP_NODE_SHARED_DATA" in os.environ else []
    places += [ROOT.parent / "shared" / "data"]
    for place in places:
        if (place / "README.md").is_file():
            return place
    pytest.skip("the shared data is not beside this checkout (set ROLLUP_NODE_SHARED_DATA to its folder)")


class Leftovers:
    """A folder for the processes of one test, and what they leave behind. Processes are known by their working
    directory, so start them with `cwd=leftovers.folder` and `env=leftovers.environment()`; what they make in the
    file system belongs under the folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.temporary = folder / "t"
        self.temporary.mkdir()
        self._shared_memory = self._in_shared_memory()

    def environment(self, **more: str) -> dict[str, str]:
        """The environment for a process of the test: all temporary files go below the folder."""
        without = {name: value for name, value in os.environ.items() if name != "XDG_RUNTIME_DIR"}
        return {**without, "TMPDIR": str(self.temporary), **more}

    def processes(self) -> list[str]:
        """The living processes of the test, with their command lines."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                with contextlib.suppress(OSError):
                    if Path(os.readlink(entry / "cwd")).is_relative_to(self.folder):
                        title = (entry / "cmdline").read_bytes().rstrip(b"\0").replace(b"\0", b" ")
                        found.append(f"{entry.name} {title.decode(errors='replace')}")
        return found

    def sockets(self) -> list[str]:
        """The Unix sockets below the folder, as the kernel knows them and as files."""
        lines = Path("/proc/net/unix").read_text().splitlines()
        bound = {line.split()[-1] for line in lines if str(self.folder) in line}
        files = (Path(folder) / name for folder, _, names in os.walk(self.folder) for name in names)
        return sorted(bound | {str(path) for path in files if path.is_socket()})

    def all(self) -> list[str]:
        """Everything that should not be there any more."""
        memory = [f"/dev/shm/{name}" for name in sorted(self._in_shared_memory() - self._shared_memory)]
        temporary = [str(path) for path in self.temporary.iterdir()]
        return [*self.processes(), *self.sockets(), *memory, *temporary]

    def wait_until_gone(self, seconds: float = 20.0) -> list[str]:
        """Waits for the last to go; what is still there when the time is over."""
        deadline = time.monotonic() + seconds
        while (left := self.all()) and time.monotonic() < deadline:
            time.sleep(0.02)
        return left

    def kill(self) -> None:
        """Ends every process of the test."""
        for line in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(line.split()[0]), signal.SIGKILL)

    @staticmethod
    def _in_shared_memory() -> set[str]:
        """Named shared memory of the kinds that Python programs make (other programs' is not our business)."""
        kinds = ("rollup", "psm_", "pym-", "sem.")
        return (
            {name for name in os.listdir("/dev/shm") if name.startswith(kinds)} if os.path.isdir("/dev/shm") else set()
        )


@contextlib.contextmanager
def watched_folder() -> Iterator[Leftovers]:
    """A folder for processes, checked for what they leave and removed."""
    folder = Path(tempfile.mkdtemp(prefix="rn-"))
    watch = Leftovers(folder)
    try:
        yield watch
        left = watch.wait_until_gone()
        assert not left, f"left behind: {left}"
    finally:
        watch.kill()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def leftovers() -> Iterator[Leftovers]:
    """A place for a test's processes; the test fails when a process, socket, shared memory or temporary file of
    theirs is left after it."""
    with watched_folder() as watch:
        yield watch


@pytest.fixture(scope="module")
def module_leftovers() -> Iterator[Leftovers]:
    """The same for processes that the tests of a module share."""
    with watched_folder() as watch:
        yield watch
