"""Where ranges run: this process, or a Dask cluster that is reached or not."""

import socket
import ssl
import sys
from asyncio import CancelledError
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any, NoReturn
from unittest import mock

import msgspec
import pytest

from rollup_node.node.system.exit_codes import SetupError, version
from rollup_node.tools.history import runner
from rollup_node.tools.history.folder import HistoryFolder, RunFile
from rollup_node.tools.history.manifest import NO_BLOCK, Block, ManifestRow, RunConfig, genesis_resume
from rollup_node.tools.history.range_task import RangeTask, run_range
from rollup_node.tools.history.runner import (
    HistoryRun,
    Outcome,
    RunReport,
    executor,
    result_of,
)
from tests.support.chains.plain_rollup import PLAIN_ROLLUP
from tests.support.chains.small_history import manifest_row

CONFIG = RunConfig("v1", 1, "aa", 100, 10, 50, "jsonl", "engine", False)
RUN = RunFile(CONFIG, "local", 139)


class SimulatedRanges:
    """Runs ranges in no time.

    Those that start at `early` begin with another safe head unless they are given one, those of `broken` fail, and
    those of `deaf` start from where they like."""

    workers = 1

    def __init__(self, folder: HistoryFolder, **kinds: set[int]) -> None:
        self.tasks: list[RangeTask] = []
        self._folder = folder
        self._early, self._broken = kinds.get("early", set()), kinds.get("broken", set())
        self._deaf = kinds.get("deaf", set())

    def run(self, tasks: Sequence[Any], work: Callable[[Any], Any]) -> Generator[Outcome[Any, Any]]:
        for task in tasks:
            self.tasks.append(task)
            if task.first in self._broken:
                yield Outcome(task, None, "L1 is gone")
                continue
            made = self._row(task)
            (file,) = made.files
            source = self._folder.partial(made.range) / "rows"
            source.write_bytes(bytes(file.size))
            self._folder.publish(made, {file.path: source})
            yield Outcome(task, made)

    def _row(self, task: RangeTask) -> ManifestRow:
        made = manifest_row(task.first, task.last, task.config)
        is_other = task.safe_head is None and task.first in self._early
        if is_other or task.first in self._deaf:
            start = msgspec.structs.replace(made.start, safe=Block(made.start.safe.number + 1, "0x"))
            made = msgspec.structs.replace(made, start=start)
        return msgspec.structs.replace(made, repaired=task.repaired)


def _run(folder: HistoryFolder, run: RunFile = RUN, **kinds: set[int]) -> tuple[RunReport, list[RangeTask]]:
    folder.open(run)
    ranges = SimulatedRanges(folder, **kinds)
    return HistoryRun(folder, run, ranges, ("--l1", "x"), "v1", 50, lambda outcome: None).run(), ranges.tasks


def test_a_run_is_resumed(tmp_path: Path) -> None:
    folder = HistoryFolder(tmp_path / "out")
    report, tasks = _run(folder, broken={120})
    assert (report.derived, report.skipped) == (3, 0)
    assert report.failed == ("L1 blocks 120 to 129: L1 is gone",)
    assert [task.first for task in tasks] == [100, 110, 120, 130]
    report, tasks = _run(folder)
    assert report == RunReport(1, 3, (), (), ()) and [task.first for task in tasks] == [120]
    assert _run(folder)[1] == []


def test_a_run_ends_when_range_after_range_fails(tmp_path: Path) -> None:
    """A full disk, or an L1 that is gone: the others would fail, too, after hours."""
    folder = HistoryFolder(tmp_path / "out")
    run = msgspec.structs.replace(RUN, last=199)
    report, tasks = _run(folder, run, broken={110, 120, 130, 150, 160, 170, 180, 190})
    assert [task.first for task in tasks] == list(range(100, 181, 10)), "the success at 140 counts anew"
    assert report.given_up == "4 ranges failed one after the other, the last with: L1 is gone"
    assert (report.derived, len(report.failed), report.repaired) == (2, 7, ())
    report, tasks = _run(folder, run)
    assert (report.derived, report.skipped, report.given_up) == (8, 2, "")


def test_a_seam_is_repaired_from_the_end_of_the_range_before(tmp_path: Path) -> None:
    report, tasks = _run(HistoryFolder(tmp_path / "out"), early={120})
    assert report.failed == ()
    assert report.repaired == ("seam L1 119/120: safe head differ; run again from the end of L1 block 119: it closes",)
    assert (tasks[-1].first, tasks[-1].safe_head) == (120, 238) and tasks[-1].repaired


def test_without_an_l2_source_the_batcher_of_the_range_before_is_the_one_to_begin_with(tmp_path: Path) -> None:
    """The first ranges begin with the batcher that is given."""

    class Reading(SimulatedRanges):
        def _row(self, task: RangeTask) -> ManifestRow:
            made = manifest_row(task.first, task.last, task.config)
            states = [msgspec.structs.replace(item, safe=NO_BLOCK, origin=NO_BLOCK) for item in (made.start, made.end)]
            if task.first == 120 and task.batcher != f"0x{110:040x}":
                states[0] = msgspec.structs.replace(states[0], system_config="other")
            return msgspec.structs.replace(
                made, start=states[0], end=states[1], batcher=f"0x{task.first:040x}", repaired=task.repaired
            )

    folder = HistoryFolder(tmp_path / "out")
    run = msgspec.structs.replace(RUN, config=msgspec.structs.replace(CONFIG, source="none", batcher="0x05"))
    folder.open(run)
    ranges = Reading(folder)
    report = HistoryRun(folder, run, ranges, (), "v1", 50, lambda outcome: None).run()
    text = "seam L1 119/120: system config differ; run again from the end of L1 block 119: it closes"
    assert report.repaired == (text,)
    assert [(task.batcher, task.safe_head) for task in ranges.tasks] == [("0x05", None)] * 4 + [(f"0x{110:040x}", None)]


def test_a_seam_that_stays_open_is_reported_and_not_run_for_ever(tmp_path: Path) -> None:
    folder = HistoryFolder(tmp_path / "out")
    assert _run(folder, deaf={120})[0].open_seams == ("seam L1 119/120: safe head differ after a second run",)
    report, tasks = _run(folder, deaf={120})
    assert tasks == [] and len(report.open_seams) == 1


def test_ranges_in_order_start_from_the_end_before_and_end_at_a_failure(tmp_path: Path) -> None:
    config = msgspec.structs.replace(CONFIG, in_order=True, safe_head=198)
    run = msgspec.structs.replace(RUN, config=config)
    report, tasks = _run(HistoryFolder(tmp_path / "out"), run, broken={120})
    assert [(task.first, task.safe_head) for task in tasks] == [(100, 198), (110, 218), (120, 238)]
    assert (report.derived, len(report.failed)) == (2, 1)


def test_without_an_l2_source_each_range_continues_where_the_one_before_ended(tmp_path: Path) -> None:
    genesis = genesis_resume(PLAIN_ROLLUP)

    class Derived(SimulatedRanges):
        def _row(self, task: RangeTask) -> ManifestRow:
            resume = msgspec.structs.replace(genesis, base=task.last)
            return msgspec.structs.replace(super()._row(task), resume=resume)

    folder = HistoryFolder(tmp_path / "out")
    run = msgspec.structs.replace(RUN, config=msgspec.structs.replace(CONFIG, source="none", in_order=True))
    folder.open(run)
    for broken, begun in (({120}, [100, 110, 120]), (set[int](), [120, 130])):
        ranges = Derived(folder, broken=broken)
        HistoryRun(folder, run, ranges, (), "v1", 50, lambda outcome: None, genesis).run()
        assert [task.first for task in ranges.tasks] == begun
        bases = [genesis.base if first == 100 else first - 1 for first in begun]
        assert [task.resume and task.resume.base for task in ranges.tasks] == bases
        before = [None if first == 100 else first - 1 for first in begun]
        assert [task.after and task.after.last for task in ranges.tasks] == before
        assert {task.safe_head for task in ranges.tasks} == {None}


TASK = RangeTask("out", 100, 109, "c0", "v1", "jsonl", (), 50, 50)


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
