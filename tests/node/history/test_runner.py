"""Where ranges run: this process, or a Dask cluster that is reached or not."""

import ssl
from asyncio import CancelledError
from collections.abc import Iterator
from typing import Any, NoReturn

import pytest

from rollup_node.node.history import runner
from rollup_node.node.history.manifest import ManifestRow
from rollup_node.node.history.range_task import RangeFailed, RangeTask
from rollup_node.node.history.runner import LocalExecutor, Outcome, executor, outcome, result_of
from rollup_node.node.system.exit_codes import SetupError
from rollup_node.node.system.version import version
from tests.support.history_values import row

TASK = RangeTask("out", 100, 109, "c0", "v1", "jsonl", (), 50, 50)


def test_one_worker_needs_no_cluster() -> None:
    with executor(1, None) as found:
        assert isinstance(found, LocalExecutor) and found.workers == 1


def test_a_range_that_fails_is_an_outcome() -> None:
    def fails(task: RangeTask) -> ManifestRow:
        raise RangeFailed("L1 is gone")

    done = row(100, 109)
    assert outcome(TASK, fails) == (TASK, None, "L1 is gone")
    assert outcome(TASK, lambda task: done) == (TASK, done, "")
    failed = list(LocalExecutor().run([TASK]))
    assert len(failed) == 1 and "the worker has version" in failed[0].error


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:9", "nonsense://x", "127.0.0.1:no"])
def test_a_scheduler_that_is_not_there(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(runner, "CONNECT_SECONDS", 0.3)
    with pytest.raises(SetupError, match="--scheduler: cannot reach a Dask scheduler at"), executor(1, address):
        pass


def test_without_dask_many_workers_say_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "distributed", None)
    with pytest.raises(SetupError, match=r"pip install 'rollup-node\[history\]'"), executor(2, None):
        pass


def test_other_users_of_the_machine_cannot_reach_the_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever reaches a scheduler runs code as its user; this one takes TLS with a certificate of its own alone."""
    distributed = pytest.importorskip("distributed")
    made: list[dict[str, Any]] = []

    def cluster(**given: Any) -> NoReturn:
        made.append(given)
        raise SetupError("enough")

    monkeypatch.setattr(distributed, "LocalCluster", cluster)
    with pytest.raises(SetupError, match="enough"), executor(2, None):
        pass
    (given,) = made
    security = given["security"]
    assert given["host"] == "127.0.0.1" and given["dashboard_address"] is None
    assert security.require_encryption and security.get_listen_args("scheduler")["require_encryption"]
    context = security.get_listen_args("scheduler")["ssl_context"]
    assert context.verify_mode is ssl.CERT_REQUIRED


Resources = dict[str, float]


class StubClient:
    """A client of a cluster whose workers have this version, and so many threads and resources each."""

    loop = None

    def __init__(self, version: str, *workers: tuple[int, Resources]) -> None:
        self._version, self._workers = version, workers
        self.submitted: list[Any] = []
        self.cancelled: list[Any] = []

    def run(self, function: object) -> dict[str, str]:
        return {"tcp://127.0.0.1:1": self._version}

    def scheduler_info(self, n_workers: int) -> dict[str, Any]:
        assert n_workers == -1
        each = enumerate(self._workers)
        return {"workers": {str(at): {"nthreads": threads, "resources": known} for at, (threads, known) in each}}

    def submit(self, function: object, task: RangeTask, *, pure: bool, resources: Resources | None) -> "StubFuture":
        self.submitted.append((task, resources))
        return StubFuture(None)

    def cancel(self, futures: list[Any]) -> None:
        self.cancelled += futures


class StubCompleted(list[Any]):
    """Yields futures in the order in which they were added; STARTED gets how many run at each time."""

    def __init__(self, futures: list[Any], loop: None) -> None:
        super().__init__(futures)

    def __iter__(self) -> Iterator[Any]:
        while self:
            STARTED.append(len(self))
            yield self.pop(0)

    def update(self, futures: list[Any]) -> None:
        self.extend(futures)


STARTED: list[int] = []


def test_workers_of_another_version_and_none_are_refused() -> None:
    with pytest.raises(SetupError, match=r"workers have version v0\.0\.0, this is v"):
        runner.DaskExecutor(StubClient("v0.0.0", (2, {})))
    with pytest.raises(SetupError, match="it has no workers"):
        runner.DaskExecutor(StubClient(version()))
    with pytest.raises(SetupError, match="it has no workers"):
        runner.DaskExecutor(StubClient(version(), (2, {"l1": 0.5})))
    assert runner.DaskExecutor(StubClient(version(), (2, {}), (3, {}))).workers == 5


def test_a_resource_bounds_the_ranges_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers that do not declare it get none; no more tasks are submitted than run, whatever workers join."""
    monkeypatch.setattr(pytest.importorskip("distributed"), "as_completed", StubCompleted)
    client = StubClient(version(), (4, {"l1": 2.0}), (1, {"l1": 3.0}), (8, {}))
    found = runner.DaskExecutor(client)
    assert found.workers == 2 + 1
    STARTED.clear()
    assert len(list(found.run([TASK] * 5))) == 5
    assert max(STARTED) == 3 and [resources for _, resources in client.submitted] == [{"l1": 1}] * 5
    assert client.cancelled == []
    other = StubClient(version(), (4, {"l1": 2.0}))
    running = runner.DaskExecutor(other, "provider-b").run([TASK] * 5)
    next(running)
    running.close()  # type: ignore[attr-defined]
    assert {resources for _, resources in other.submitted} == {None} and len(other.cancelled) == 3


class StubFuture:
    """A task that has ended."""

    def __init__(self, error: BaseException | None) -> None:
        self._error = error

    def result(self) -> Outcome:
        if self._error is not None:
            raise self._error
        return Outcome(TASK, None, "L1 is gone")


def test_what_a_cluster_loses_is_an_outcome() -> None:
    assert result_of(StubFuture(None), TASK).error == "L1 is gone"
    lost = result_of(StubFuture(RuntimeError("4 workers died\nwhile running it")), TASK)
    assert lost == (TASK, None, "lost by the cluster: 4 workers died")
    assert result_of(StubFuture(CancelledError()), TASK).error == "lost by the cluster: CancelledError"
