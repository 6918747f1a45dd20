"""Fixtures for all tests: the folder of recorded chain data, and folders for the processes that a test starts."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from rollup_node.stages.io import log
from tests.support.leftovers import Leftovers, watched_folder

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

    class Scheduling(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            return file if file in TOGETHER else nodeid

    return Scheduling(config, log)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of recorded chain data beside the checkout; the test is skipped where there is none."""
    places = [Path(os.environ["ROLLUP_NODE_SHARED_DATA"])] if "ROLLUP_NODE_SHARED_DATA" in os.environ else []
    places += [ROOT.parent / "shared" / "data"]
    for place in places:
        if (place / "README.md").is_file():
            return place
    pytest.skip("the shared data is not beside this checkout (set ROLLUP_NODE_SHARED_DATA to its folder)")


@pytest.fixture
def leftovers() -> Iterator[Leftovers]:
    """A folder for a test's processes; the test fails where they leave a process, socket, shared memory or temporary
    file."""
    with watched_folder() as watch:
        yield watch


@pytest.fixture(scope="module")
def module_leftovers() -> Iterator[Leftovers]:
    """As `leftovers`, for processes that the tests of a module share."""
    with watched_folder() as watch:
        yield watch
