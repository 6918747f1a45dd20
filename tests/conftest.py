"""Fixtures for all tests: shared real data, folders for processes, and a process that forks programs."""

import asyncio
import functools
import gc
import inspect
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from rollup_node.stages.io.log import logger as log
from rollup_node.tools.devnet.fork_server import ForkServer
from tests.support.processes.forked_programs import shared, shared_fork_server
from tests.support.processes.leftovers import Leftovers, watched_folder
from tests.support.timing.slowness import slowness

ROOT = Path(__file__).parent.parent
# Whatever a test starts, no packet of its peer-to-peer stack leaves the loopback interface, and no port is shared.
os.environ["NODE_P2P_NETRESTRICT"] = "127.0.0.0/8"
os.environ.setdefault("NODE_P2P_LISTEN_TCP_PORT", "0")
# Bytecode is compiled once, not by each of the workers and programs that start.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# Importing aiohttp reads the system's certificates, for 60 ms in each program; no test connects to a public server.
os.environ["SSL_CERT_FILE"] = os.environ["SSL_CERT_DIR"] = os.devnull
# Under nohup the programs of the tests would ignore SIGHUP, and in the background of a shell SIGINT.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)
# Hypothesis would import trio, for 150 ms, to seed the scheduler of tests that use it.
os.environ["HYPOTHESIS_NO_PLUGINS"] = "1"
INITIAL_LOG_CONFIGURATION = log.configuration()
TEST_SECONDS = 58.0
RECURSION_LIMIT = sys.getrecursionlimit()
_PROGRAMS = {"leftovers", "module_leftovers", "fork_server"}
"""Fixtures of tests that start programs."""
_NETWORKS = {"Devnet", "Chains"}
"""What modules import that run local networks."""


def pytest_configure(config: pytest.Config) -> None:
    """Give each run the same examples, unless `--hypothesis-seed` asks for others; a slow machine fails none."""
    from hypothesis import HealthCheck, settings

    settings.register_profile(
        "untimed",
        deadline=None,
        derandomize=config.getoption("--hypothesis-seed", None) is None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("untimed")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Three workers a core: tests that run programs mostly wait for them. A slow machine has fewer: the networks of
    several tests could not keep up with their blocks."""
    cores = len(os.sched_getaffinity(0))
    return max(cores + 1, round(3 * cores / slowness()))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """No module is garbage: the collector looks at none of them, neither meanwhile nor during the tests."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Bounds the time of tests that are coroutines. Modules that start programs stand evenly among the others, before
    the last ones: their tests wait while those of other workers compute. Those of networks, which take longest, come
    before the last of these."""
    for item in items:
        if isinstance(item, pytest.Function) and inspect.iscoroutinefunction(item.obj):
            item.obj = _bounded(item.obj)
    ends: dict[Path, float] = {}
    for item in items:
        if isinstance(item, pytest.Function) and _PROGRAMS.intersection(item.fixturenames):
            ends[item.path] = 0.7 if _NETWORKS & vars(item.module).keys() else 0.9
    places: dict[Path, float] = {}
    for end in (0.7, 0.9, 1.0):
        kind = [item for item in items if ends.get(item.path, 1.0) == end]
        for index, item in enumerate(kind):
            places.setdefault(item.path, end * index / len(kind))
    items.sort(key=lambda item: places[item.path])


def _bounded(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., Coroutine[Any, Any, None]]:
    """Return the test, which fails with TimeoutError after a minute, or later on a slow machine."""

    @functools.wraps(test)
    async def bounded(*args: Any, **kwargs: Any) -> None:
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(TEST_SECONDS) as limit:
            begin = loop.time()
            end = loop.call_later(TEST_SECONDS - 2, lambda: limit.reschedule(begin + TEST_SECONDS * slowness()))
            try:
                await test(*args, **kwargs)
            finally:
                end.cancel()

    return bounded


def pytest_sessionfinish() -> None:
    """Ends the process that forks programs."""
    shared.close()


def pytest_runtest_setup() -> None:
    """Undoes what tests change for their whole process: the log, and the recursion limit, which py-ecc raises so far
    that deeply nested JSON would overflow the C stack."""
    sys.setrecursionlimit(RECURSION_LIMIT)
    log.configure(*INITIAL_LOG_CONFIGURATION)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Return the folder of real chain data beside the checkout; without it the test is skipped with the reason."""
    places = [Path(os.environ["ROLLUP_NODE_SHARED_DATA"])] if "ROLLUP_NODE_SHARED_DATA" in os.environ else []
    places += [ROOT.parent / "shared" / "data"]
    for place in places:
        if (place / "README.md").is_file():
            return place
    pytest.skip("the shared data is not beside this checkout (set ROLLUP_NODE_SHARED_DATA to its folder)")


@pytest.fixture
def leftovers() -> Iterator[Leftovers]:
    """Yield a folder for the processes of a test, which fails when they leave a process, socket, shared memory or
    temporary file."""
    with watched_folder() as result:
        yield result


@pytest.fixture(scope="module")
def module_leftovers() -> Iterator[Leftovers]:
    """Yield the same for processes that the tests of a module share."""
    with watched_folder() as result:
        yield result


@pytest.fixture(scope="session")
def fork_server() -> ForkServer:
    """Return a process that forks programs, which has imported their modules."""
    return shared_fork_server()
