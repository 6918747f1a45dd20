"""Where ranges run: this process, or a Dask cluster that is reached or not."""

from asyncio import CancelledError

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


class StubClient:
    """A client of a cluster whose workers have this version and so many threads."""

    def __init__(self, version: str, threads: int) -> None:
        self._version, self._threads = version, threads

    def run(self, function: object) -> dict[str, str]:
        return {"tcp://127.0.0.1:1": self._version}

    def nthreads(self) -> dict[str, int]:
        return {"tcp://127.0.0.1:1": self._threads}


def test_workers_of_another_version_and_none_are_refused() -> None:
    with pytest.raises(SetupError, match=r"workers have version v0\.0\.0, this is v"):
        runner.DaskExecutor(StubClient("v0.0.0", 2))
    with pytest.raises(SetupError, match="it has no workers"):
        runner.DaskExecutor(StubClient(version(), 0))
    assert runner.DaskExecutor(StubClient(version(), 2)).workers == 2


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
