"""Where ranges run: this process, or a Dask cluster that is reached or not."""

import socket
import ssl
import sys
from asyncio import CancelledError
from typing import Any, NoReturn
from unittest import mock

import msgspec
import pytest

from rollup_node.node.system.exit_codes import SetupError, version
from rollup_node.tools.history import runner
from rollup_node.tools.history.manifest import ManifestRow
from rollup_node.tools.history.range_task import RangeFailed, RangeTask, run_range
from rollup_node.tools.history.runner import LocalExecutor, Outcome, executor, outcome, result_of
from tests.support.chains.history_values import row

TASK = RangeTask("out", 100, 109, "c0", "v1", "jsonl", (), 50, 50)


def test_one_worker_needs_no_cluster() -> None:
    with executor(1, None) as result:
        assert isinstance(result, LocalExecutor) and result.workers == 1


def test_a_range_that_fails_is_an_outcome() -> None:
    def fails(task: RangeTask) -> ManifestRow:
        raise RangeFailed("L1 is gone")

    done = row(100, 109)
    assert outcome(TASK, fails) == (TASK, None, "L1 is gone")
    assert outcome(TASK, lambda task: done) == (TASK, done, "")
    failed = list(LocalExecutor().run([TASK], run_range))
    assert len(failed) == 1 and "the worker has version" in failed[0].error


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:9", "tls://127.0.0.1:9", "nonsense://x", "127.0.0.1:no"])
def test_a_scheduler_that_is_not_there(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(runner, "CONNECT_SECONDS", 0.3)
    with pytest.raises(SetupError, match="--scheduler: cannot reach a Dask scheduler at"), executor(1, address):
        pass


def test_without_dask_many_workers_say_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(SetupError, match=r"pip install 'rollup-node\[history\]'"), executor(2, None):
        pass


def test_other_users_of_the_machine_cannot_reach_the_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever reaches a scheduler runs code as its user; this one takes TLS with a certificate of its own alone."""
    distributed = pytest.importorskip("distributed")
    made: list[dict[str, Any]] = []

    def cluster(**options: Any) -> NoReturn:
        made.append(options)
        raise SetupError("enough")

    monkeypatch.setattr(distributed, "LocalCluster", cluster)
    with pytest.raises(SetupError, match="enough"), executor(2, None):
        pass
    (value,) = made
    security = value["security"]
    assert value["host"] == "127.0.0.1" and value["dashboard_address"] is None
    assert security.require_encryption and security.get_listen_args("scheduler")["require_encryption"]
    context = security.get_listen_args("scheduler")["ssl_context"]
    assert context.verify_mode is ssl.CERT_REQUIRED


def test_own_workers_that_do_not_start_are_no_fault_of_a_scheduler(
    monkeypatch: pytest.MonkeyPatch, no_waits: None
) -> None:
    distributed = pytest.importorskip("distributed")
    client = mock.MagicMock()
    client.__enter__.return_value.wait_for_workers.side_effect = TimeoutError
    monkeypatch.setattr(distributed, "LocalCluster", mock.MagicMock())
    monkeypatch.setattr(distributed, "Client", lambda *_, **__: client)
    with pytest.raises(SetupError, match=r"^--workers: they have not started within 0.05 s"), executor(2, None):
        pass


Resources = dict[str, float]


class StubFuture:
    """A task that has ended, by an error, lost with the scheduler, or never."""

    def __init__(self, error: BaseException | None = None, is_lost: bool = False, is_done: bool = True) -> None:
        self._error, self._is_lost, self._is_done = error, is_lost, is_done

    def result(self) -> Outcome[RangeTask, ManifestRow]:
        if self._error is not None:
            raise self._error
        return Outcome(TASK, None, "L1 is gone")

    def done(self) -> bool:
        return self._is_done

    def cancelled(self) -> bool:
        return self._is_lost


class StubClient:
    """A client of a cluster whose workers have this version, and so many threads and resources each.

    `futures` are what tasks become, ended ones once they are used up."""

    status = "running"

    def __init__(self, version: str, *workers: tuple[int, Resources]) -> None:
        self._version, self.workers = version, workers
        self.futures: list[StubFuture] = []
        self.submitted: list[Any] = []
        self.cancelled: list[Any] = []

    def run(self, function: object) -> dict[str, str]:
        if not self._version:
            raise ModuleNotFoundError("No module named 'rollup_node'\nmore")
        return {"tcp://127.0.0.1:1": self._version}

    def scheduler_info(self, n_workers: int) -> dict[str, Any]:
        assert n_workers == -1
        item = enumerate(self.workers)
        return {"workers": {str(at): {"nthreads": threads, "resources": known} for at, (threads, known) in item}}

    def submit(
        self, function: object, task: RangeTask, work: object, *, pure: bool, resources: Resources | None
    ) -> "StubFuture":
        self.submitted.append((task, resources))
        return self.futures.pop(0) if self.futures else StubFuture()

    def cancel(self, futures: list[Any]) -> None:
        self.cancelled += futures


@pytest.fixture
def no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("POLL_SECONDS", 0.001), ("WORKERS_SECONDS", 0.002), ("RETURN_SECONDS", 0.05)):
        monkeypatch.setattr(runner, name, value)


def test_workers_of_another_version_and_none_are_refused() -> None:
    for client, error in (
        (StubClient("v0.0.0", (2, {})), r"workers have version v0\.0\.0, this is v"),
        (StubClient("", (2, {})), r"a worker cannot run rollup-node \(No module named 'rollup_node'\): install"),
        (StubClient(version()), "it has no workers"),
        (StubClient(version(), (2, {"l1": 0.5})), "it has no workers"),
    ):
        with pytest.raises(SetupError, match=f"^--scheduler: .*{error}"):
            runner.DaskExecutor(client)
    with pytest.raises(SetupError, match=r"^--workers: they have not started"):
        runner.DaskExecutor(StubClient(version()), option="--workers")
    assert runner.DaskExecutor(StubClient(version(), (2, {}), (3, {}))).workers == 5


def test_a_resource_bounds_the_ranges_at_a_time() -> None:
    """Workers that do not declare it get none; no more tasks are submitted than run, whatever workers join."""
    client = StubClient(version(), (4, {"l1": 2.0}), (1, {"l1": 3.0}), (8, {}))
    dask_executor = runner.DaskExecutor(client)
    assert dask_executor.workers == 2 + 1
    running = dask_executor.run([TASK] * 5, run_range)
    next(running)
    assert len(client.submitted) == 3
    assert len(list(running)) == 4 and [resources for _, resources in client.submitted] == [{"l1": 1}] * 5
    assert client.cancelled == []
    other = StubClient(version(), (4, {"l1": 2.0}))
    running = runner.DaskExecutor(other, "provider-b").run([TASK] * 5, run_range)
    next(running)
    running.close()
    assert {resources for _, resources in other.submitted} == {None} and len(other.cancelled) == 3


def test_what_a_cluster_loses_is_an_outcome() -> None:
    assert result_of(StubFuture(), TASK).error == "L1 is gone"
    lost = result_of(StubFuture(RuntimeError("4 workers died\nwhile running it")), TASK)
    assert lost == (TASK, None, "lost by the cluster: 4 workers died")
    assert result_of(StubFuture(CancelledError()), TASK).error == "lost by the cluster: CancelledError"


# --- schedulers and workers that go ---------------------------------------------------------------------------------


def _tasks(count: int) -> list[RangeTask]:
    return [msgspec.structs.replace(TASK, first=first) for first in range(count)]


@pytest.mark.usefixtures("no_waits")
def test_what_is_lost_with_the_scheduler_is_run_again_when_it_is_back(capsys: pytest.CaptureFixture[str]) -> None:
    client = StubClient(version(), (2, {}))
    client.futures = [StubFuture(), StubFuture(), StubFuture(is_lost=True), StubFuture(is_done=False)]
    done = list(runner.DaskExecutor(client).run(_tasks(5), run_range))
    assert [task.first for task, _ in client.submitted] == [0, 1, 2, 3, 2, 3, 4] and len(done) == 5
    assert capsys.readouterr().err == ("rollup-node: the connection to the scheduler is lost: waiting 0.05 s for it\n")


@pytest.mark.usefixtures("no_waits")
@pytest.mark.parametrize(
    ("status", "workers", "lost", "text"),
    [
        ("closed", 2, {"is_lost": True}, "the connection to it is lost.*"),
        ("connecting", 2, {"is_lost": True}, "the connection.*"),
        ("running", 0, {"is_lost": True}, "it has no workers any more.*"),
        ("running", 0, {"is_done": False}, r"it has had no workers for 0\.05 s"),
    ],
)
def test_a_scheduler_or_workers_that_stay_away_end_the_run_in_a_line(
    status: str, workers: int, lost: dict[str, Any], text: str
) -> None:
    client = StubClient(version(), (1, {}))
    client.futures = [StubFuture(), StubFuture(**lost)]
    running = runner.DaskExecutor(client).run(_tasks(5), run_range)
    next(running)
    client.status, client.workers = status, ((1, {}),) * workers
    with pytest.raises(SetupError, match=f"--scheduler: {text}: the same command continues with the ranges"):
        list(running)
    assert len(client.cancelled) == (1 if "is_done" in lost else 0)


def test_what_is_no_scheduler_is_refused_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A listener that says nothing."""
    pytest.importorskip("distributed")
    monkeypatch.setattr(runner, "CONNECT_SECONDS", 0.3)
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        pytest.raises(SetupError, match=r"no answer within 0\.3 s"),
        executor(1, f"tcp://127.0.0.1:{silent.getsockname()[1]}"),
    ):
        pass
