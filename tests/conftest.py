"""Fixtures for all tests: shared real data, folders for processes, and a process that forks programs."""

import asyncio
import functools
import gc
import inspect
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

from rollup_node.stages.io.log import logger as log
from tests.support.processes.forked_programs import ForkServer
from tests.support.processes.leftovers import Leftovers, watched_folder

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
# What is imported and collected lives to the end: searching it for garbage takes a quarter of the time.
gc.disable()
# Hypothesis would import trio, for 150 ms, to seed the scheduler of tests that use it.
os.environ["HYPOTHESIS_NO_PLUGINS"] = "1"
INITIAL_LOG_CONFIGURATION = log.configuration()
SHARED_PROGRAMS = frozenset(
    f"tests/{name}.py"
    for name in (
        *("actions/test_running_network", "chaos/test_kills", "chaos/test_peers"),
        *("tools/commands/test_batches", "tools/commands/test_history_run", "node/test_whole_node"),
        "node/supervisor/test_supervisor",
        *("attack/test_rpc", "attack/test_peers", "attack/test_network"),
        *("attack/test_batcher", "attack/test_beacon", "attack/test_l1", "attack/test_da_server", "attack/test_engine"),
        *("interop/test_js_discv5", "interop/test_js_gossip", "interop/test_js_libp2p", "interop/test_js_sync"),
        *("interop/test_op_programs", "interop/test_engine_answers", "tools/devnet/test_network_el_sync"),
        "test_packaging",
    )
)
LONG_TESTS = (
    *("tests/attack/", "tests/chaos/", "tests/tools/devnet/test_", "tests/actions/", "tests/test_packaging"),
    *("tests/interop/", "tests/node/supervisor/", "tests/node/test_", "tests/ipc/test_kills"),
    "tests/tools/commands/test_history_run",
    *("tests/tools/bench/test_", "tests/tools/devnet/soak/test_run"),
)
"""Where the tests are that mostly wait for programs."""

TEST_SECONDS = 58.0
RECURSION_LIMIT = sys.getrecursionlimit()


def pytest_runtest_setup() -> None:
    """Undoes what tests change for their whole process: the log, and the recursion limit, which py-ecc raises so far
    that deeply nested JSON would overflow the C stack."""
    sys.setrecursionlimit(RECURSION_LIMIT)
    log.configure(*INITIAL_LOG_CONFIGURATION)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mixes the tests that mostly wait for programs with the others, so that all cores have work, and has them done
    well before the others, so that none of them runs alone at the end. Files whose tests share programs take longest,
    so they are done before the others that run programs. The tests of a file stay together."""
    scopes: dict[str, set[str]] = {}
    for item in items:
        scopes.setdefault(_file(item), set()).add(scope_of(item.nodeid))
    # From the last file to the first, as attacks need the CPU: they run beside tests of processes, which wait.
    shared = [file for file in reversed(scopes) if file in SHARED_PROGRAMS]
    long = [file for file in scopes if file.startswith(LONG_TESTS) and file not in SHARED_PROGRAMS]
    others = [file for file in reversed(scopes) if file not in {*shared, *long}]
    places: dict[str, float] = {}
    for files, share in ((shared, 0.55), (long, 0.75), (others, 1.0)):
        *starts, number = accumulate((len(scopes[file]) for file in files), initial=0)
        places |= {file: start / number * share for file, start in zip(files, starts, strict=True)}
    items.sort(key=lambda item: places[_file(item)])
    for item in items:
        if isinstance(item, pytest.Function) and inspect.iscoroutinefunction(item.obj):
            item.obj = _bounded(item.obj)


def _bounded(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., Coroutine[Any, Any, None]]:
    """The test, which fails with TimeoutError where it would take a minute."""

    @functools.wraps(test)
    async def bounded(*args: Any, **kwargs: Any) -> None:
        async with asyncio.timeout(TEST_SECONDS):
            await test(*args, **kwargs)

    return bounded


def _file(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]


TOGETHER = (
    ("tests/stages/blobs/test_kzg", "tests/stages/blobs/test_tasks", "tests/tools/batcher/test_kzg_proofs"),
    ("tests/test_architecture", "tests/tools/dev/test_folder_graph", "tests/tools/importers/test_architecture_docs"),
    (
        *("tests/stages/protocol/test_inbox", "tests/stages/protocol/test_transactions", "tests/conformance/test_tx"),
        *("tests/tools/client/", "tests/tools/devnet/chain/test_filters", "tests/tools/devnet/evm/precompiles/"),
        "tests/tools/devnet/engine/test_execution",
    ),
    (
        *("tests/stages/l1/test_receipts", "tests/stages/l1/process/test_stage", "tests/stages/l1/test_verify"),
        *("tests/stages/l1/test_filter", "tests/tools/recorded/"),
    ),
    (
        *("tests/stages/derivation/pipeline/test_deriver", "tests/stages/derivation/process/test_stage"),
        *("tests/stages/derivation/process/test_prefetch", "tests/stages/derivation/test_parallel_decoding"),
    ),
)
"""Files that run on one worker, which for them loads the setup of ckzg, parses the project, imports eth-account and
py-ecc, or reads a recording."""


def scope_of(nodeid: str) -> str:
    """Tests of one scope run on one worker: those of a file, which saves messages to the worker, unless they are long
    and share no running programs."""
    for files in TOGETHER:
        if nodeid.startswith(files):
            return files[0]
    file = nodeid.partition("::")[0]
    return nodeid if nodeid.startswith(LONG_TESTS) and file not in SHARED_PROGRAMS else file


def pytest_collection_finish() -> None:
    """Keeps the thousands of collected tests out of each later garbage collection, and makes those rarer: what tests
    allocate is seldom part of a cycle. To find the few MB that are garbage by now would take 0.5 s in each worker."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()


def pytest_configure(config: pytest.Config) -> None:
    """The time of an example means nothing on a machine that does other work beside the tests."""
    # Registered before pytest's own cleanup, and therefore called after it.
    config.add_cleanup(_free_duckdb)
    from hypothesis import HealthCheck, settings

    settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("untimed")


def pytest_sessionfinish() -> None:
    """Keeps what is not garbage out of the five collections in which pytest looks for unraisable exceptions, and out of
    those of the interpreter, which at its end would free object by object, in 1.5 s, what the system frees at once."""
    gc.collect()
    gc.freeze()


def _free_duckdb() -> None:
    """DuckDB reports what of it is not freed when the process ends."""
    if "duckdb" in sys.modules:
        gc.unfreeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Five workers for two cores: tests that run programs mostly wait for them, and each worker collects all tests."""
    return 5 * len(os.sched_getaffinity(0)) // 2


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """A worker sends the controller only the reports that it counts or shows, a third of its messages."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return None
    for report in runtestprotocol(item, log=False, nextitem=nextitem):
        if report.when == "call" or not report.passed:
            item.ihook.pytest_runtest_logreport(report=report)
    return True


class CollectedTests(list[str]):
    """The ids of all tests, which know their places: xdist looks for each id, and would compare it with thousands."""

    def __init__(self, nodeids: Iterable[str]) -> None:
        super().__init__(nodeids)
        self._places = {nodeid: place for place, nodeid in enumerate(self)}

    def index(self, nodeid: str, *_range: Any) -> int:
        return self._places[nodeid]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Distributes scopes in the order of the tests."""
    if config.getoption("dist") != "load":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class ScopeScheduling(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return scope_of(nodeid)

        def add_node_collection(self, node: Any, collection: Sequence[str]) -> None:
            super().add_node_collection(node, collection)
            if node in self.registered_collections:
                self.registered_collections[node] = CollectedTests(collection)

        def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
            """Also forgets a scope that is done: after each test, xdist counts what is left of all scopes it knows."""
            super().mark_test_complete(node, item_index, duration)
            scope = scope_of(self.registered_collections[node][item_index])
            if all(self.assigned_work[node][scope].values()):
                del self.assigned_work[node][scope]

    config.option.loadscopereorder = False
    return ScopeScheduling(config, log)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real chain data beside the checkout; without it the test is skipped with the reason."""
    places = [Path(os.environ["ROLLUP_NODE_SHARED_DATA"])] if "ROLLUP_NODE_SHARED_DATA" in os.environ else []
    places += [ROOT.parent / "shared" / "data"]
    for place in places:
        if (place / "README.md").is_file():
            return place
    pytest.skip("the shared data is not beside this checkout (set ROLLUP_NODE_SHARED_DATA to its folder)")


@pytest.fixture
def leftovers() -> Iterator[Leftovers]:
    """A folder for the processes of a test, which fails when they leave a process, socket, shared memory or temporary
    file."""
    with watched_folder() as found:
        yield found


@pytest.fixture(scope="module")
def module_leftovers() -> Iterator[Leftovers]:
    """The same for processes that the tests of a module share."""
    with watched_folder() as found:
        yield found


@pytest.fixture(scope="session")
def fork_server() -> Iterator[ForkServer]:
    """A process that forks programs, which has imported their modules."""
    server = ForkServer()
    yield server
    server.close()
