"""Runs ranges on this machine one after the other, or on the workers of a Dask cluster."""

import asyncio
import logging
import signal
import sys
import time
from asyncio import CancelledError
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import pairwise
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import msgspec

from rollup_node.node.options.errors import shown
from rollup_node.node.system.exit_codes import PROGRAM, SetupError, version
from rollup_node.stages.protocol.texts import escaped_line
from rollup_node.tools.history.folder import HistoryFolder, RunFile
from rollup_node.tools.history.manifest import L1Range, ManifestRow, Resume
from rollup_node.tools.history.range_task import RangeFailed, RangeTask, run_range
from rollup_node.tools.history.start_stage import differences, progress

T = TypeVar("T")
R = TypeVar("R")

CONNECT_SECONDS = 10.0
RETURN_SECONDS = 60.0
"""How long a scheduler or all workers may be away during a run."""
POLL_SECONDS, WORKERS_SECONDS = 0.1, 5.0
"""Between looks at ranges that run, and at the workers."""
RUNNING, ENDED = "running", ("closing", "closed", "failed")
"""The states of a Dask client."""
CONTINUE = "the same command continues with the ranges that are missing"
RESOURCE = "l1"
"""What the resource is called of which each range takes one."""
SCHEDULER, WORKERS = "--scheduler", "--workers"
INSTALL = "install it with: pip install 'rollup-node[history]'"


class Outcome(NamedTuple, Generic[T, R]):
    """What became of a task: its result, or why it failed."""

    task: T
    row: R | None
    error: str = ""


class Executor(Protocol):
    """Where ranges run. `workers` is how many run at a time."""

    workers: int

    def run(self, tasks: Sequence[T], work: Callable[[T], R]) -> Generator[Outcome[T, R]]:
        """Do the work of all tasks; their outcomes in the order in which they end. Closed, it begins no more."""


def outcome(task: T, work: Callable[[T], R]) -> Outcome[T, R]:
    """Do the work of a task in this process."""
    try:
        return Outcome(task, work(task))
    except RangeFailed as error:
        return Outcome(task, None, str(error))


class LocalExecutor:
    """One range at a time, without Dask."""

    workers = 1

    def run(self, tasks: Sequence[T], work: Callable[[T], R]) -> Generator[Outcome[T, R]]:
        """Run the tasks in order."""
        for task in tasks:
            yield outcome(task, work)


class DaskExecutor:
    """As many ranges at a time as the cluster has room for.

    Ranges that fail do not end the others; those of a worker that dies are run again by another. Each task takes one
    of the resource, unless no worker declares that. `option` is the one that made the cluster."""

    def __init__(self, client: Any, resource: str = RESOURCE, option: str = SCHEDULER) -> None:
        self._client, self._option = client, option
        self._check_versions()
        known = self._workers().values()
        declared = [item for item in known if resource in item["resources"]]
        self._resources = {resource: 1} if declared else {}
        if declared:
            self.workers = sum(min(item["nthreads"], int(item["resources"][resource])) for item in declared)
        else:
            self.workers = sum(item["nthreads"] for item in known)
        if not self.workers:
            raise _no_workers(option)

    def _check_versions(self) -> None:
        """Raise SetupError unless all workers have this version."""
        try:
            versions: dict[str, str] = self._client.run(version)
        except (Exception, CancelledError) as error:
            text = f"a worker cannot run rollup-node ({_first_line(error)}): install this version there, {version()}"
            raise SetupError(f"{self._option}: {text}") from None
        wrong = sorted({item for item in versions.values() if item != version()})
        if wrong:
            raise SetupError(
                f"{self._option}: workers have version {', '.join(wrong)}, this is {version()}: install the same"
            )

    def run(self, tasks: Sequence[T], work: Callable[[T], R]) -> Generator[Outcome[T, R]]:
        """Run the tasks, the first ones first, no more than `workers` at a time even if the cluster grows.

        Those that are lost with the scheduler are run again when it is back. Raises SetupError where it stays away,
        and where all workers do."""
        waiting: deque[T] = deque(tasks)
        running: dict[Any, T] = {}
        try:
            while waiting or running:
                while waiting and len(running) < self.workers:
                    task = waiting.popleft()
                    running[self._submit(task, work)] = task
                lost = []
                for future in self._ended(list(running)):
                    task = running.pop(future)
                    if future.cancelled():
                        lost.append(task)
                    else:
                        yield result_of(future, task)
                if lost:
                    waiting.extendleft((*reversed(running.values()), *reversed(lost)))
                    running.clear()
                    self._await_scheduler()
        finally:
            if running:
                # Where the scheduler is gone there is nothing to cancel.
                with suppress(Exception, CancelledError):
                    self._client.cancel(list(running))

    def _ended(self, futures: list[Any]) -> list[Any]:
        """Wait until some of the futures have ended, well or not."""
        seen = looked = time.monotonic()
        while not (ended := [future for future in futures if future.done()]):
            time.sleep(POLL_SECONDS)
            now = time.monotonic()
            if now - looked < WORKERS_SECONDS:
                continue
            looked = now
            if self._client.status != RUNNING or self._workers():
                seen = now
            elif now - seen > RETURN_SECONDS:
                raise SetupError(f"{self._option}: it has had no workers for {RETURN_SECONDS:g} s: {CONTINUE}")
        return ended

    def _await_scheduler(self) -> None:
        """Wait for the client's new connection, and then for workers."""
        print(
            f"{PROGRAM}: the connection to the scheduler is lost: waiting {RETURN_SECONDS:g} s for it", file=sys.stderr
        )
        until = time.monotonic() + RETURN_SECONDS
        while time.monotonic() < until and self._client.status not in ENDED:
            if self._client.status == RUNNING and self._workers():
                self._check_versions()
                return
            time.sleep(POLL_SECONDS)
        text = "it has no workers any more" if self._client.status == RUNNING else "the connection to it is lost"
        raise SetupError(f"{self._option}: {text}: {CONTINUE}")

    def _workers(self) -> dict[str, Any]:
        """Return the cluster's workers; empty while the scheduler does not answer."""
        try:
            workers: dict[str, Any] = self._client.scheduler_info(n_workers=-1)["workers"]
        except (OSError, CancelledError):
            return {}
        return workers

    def _submit(self, task: T, work: Callable[[T], R]) -> Any:
        return self._client.submit(outcome, task, work, pure=False, resources=self._resources or None)


def result_of(future: Any, task: T) -> Outcome[T, Any]:
    """Return the outcome of a task that has ended on a cluster, or was lost with its workers or its scheduler."""
    try:
        result: Outcome[T, Any] = future.result()
        return result
    except (Exception, CancelledError) as error:
        return Outcome(task, None, f"lost by the cluster: {_first_line(error)}")


def _first_line(error: BaseException) -> str:
    return escaped_line(next(iter(str(error).splitlines()), "")) or type(error).__name__


@contextmanager
def executor(workers: int, scheduler: str | None, resource: str = RESOURCE) -> Iterator[Executor]:
    """Yield the executor for these flags.

    Raises SetupError where Dask is not installed, the scheduler is unreachable or has no workers, and where a worker
    has another version."""
    if scheduler is None and workers == 1:
        yield LocalExecutor()
        return
    try:
        import distributed
    except ModuleNotFoundError as error:
        raise SetupError(f"more than one worker needs the package {error.name}: {INSTALL}") from None
    _silence()
    quiet: dict[str, Any] = {"silence_logs": "ERROR", "dashboard_address": None}
    if scheduler is not None:
        with _client(distributed, scheduler) as client:
            yield DaskExecutor(client, resource)
        return
    with (
        _local_cluster(distributed, workers, {resource: 1}, quiet) as cluster,
        _client(distributed, cluster, WORKERS) as client,
    ):
        try:
            client.wait_for_workers(workers, timeout=RETURN_SECONDS)
        except TimeoutError:
            raise _no_workers(WORKERS) from None
        yield DaskExecutor(client, resource, WORKERS)


def _no_workers(option: str) -> SetupError:
    """Return the error for a cluster without workers: the user's, or that of this machine."""
    if option == SCHEDULER:
        return SetupError(f"{option}: it has no workers: start some with `dask worker ADDRESS --nthreads 1`")
    return SetupError(
        f"{option}: they have not started within {RETURN_SECONDS:g} s: give fewer, or leave it out for one"
    )


def _local_cluster(distributed: Any, workers: int, resources: dict[str, int], quiet: dict[str, Any]) -> Any:
    """Return a cluster of one range a worker.

    Its processes leave Ctrl-C, which a terminal sends to all, to this one."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        return distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            host="127.0.0.1",
            # Whoever reaches a scheduler runs code as its user: other users of the machine have no certificate.
            security=distributed.Security.temporary(),
            memory_limit=0,
            resources=resources,
            **quiet,
        )
    finally:
        signal.signal(signal.SIGINT, before)


def _silence() -> None:
    """Leave out the tracebacks that Dask logs: what it loses is reported as the outcome of a range."""
    for name in list(logging.root.manager.loggerDict):
        if name.partition(".")[0] == "distributed":
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)


def _client(distributed: Any, address: Any, option: str = SCHEDULER) -> Any:
    try:
        if isinstance(address, str):
            asyncio.run(_check_scheduler(distributed, address))
        return distributed.Client(address, timeout=RETURN_SECONDS, set_as_default=False)
    except Exception as error:
        where = shown(str(address))
        raise SetupError(f"{option}: cannot reach a Dask scheduler at {where}: {_first_line(error)}") from None


async def _check_scheduler(distributed: Any, address: str) -> None:
    """Raise any exception unless a scheduler responds, for which a client would wait without end."""
    arguments = distributed.Security().get_connection_args("client")
    result = distributed.rpc(address, timeout=CONNECT_SECONDS, connection_args=arguments)
    try:
        identity = await asyncio.wait_for(result.identity(), CONNECT_SECONDS)
        if identity["type"] != "Scheduler":
            raise ValueError(f"there is a {identity['type']}")
    except TimeoutError:
        raise ValueError(f"no answer within {CONNECT_SECONDS:g} s") from None
    finally:
        await result.close_rpc()


MOST_FAILED = 4
"""So many ranges that fail one after the other end a run; with more than two workers, two for each."""


class RunReport(NamedTuple):
    """What a run did, and what is left: how many ranges.

    Lines about seams that were repaired or stay open, and about ranges that failed. `given_up` is empty unless the
    run ended before its last range."""

    derived: int
    skipped: int
    repaired: tuple[str, ...]
    open_seams: tuple[str, ...]
    failed: tuple[str, ...]
    given_up: str = ""


class HistoryRun:
    """Runs what is missing of a folder's plan.

    `arguments` are those of every range, `floor` as in RangeTask; `tell` takes every outcome as it comes. `genesis`
    is where ranges that are derived without an L2 source begin."""

    def __init__(
        self,
        folder: HistoryFolder,
        run: RunFile,
        executor: Executor,
        arguments: tuple[str, ...],
        version: str,
        floor: int,
        tell: Callable[[Outcome[RangeTask, ManifestRow]], None],
        genesis: Resume | None = None,
    ) -> None:
        self._folder, self._run, self._executor, self._tell = folder, run, executor, tell
        self._arguments, self._version, self._floor = arguments, version, floor
        self._config, self._genesis = run.config.digest, genesis
        self._failed: list[str] = []
        self._open: list[str] = []
        self._given_up = ""

    def run(self) -> RunReport:
        """Run the missing ranges, then repairs seams."""
        done, missing = progress(self._run.plan, self._folder.usable_manifests()[0], self._config)
        skipped = len(done)
        if self._run.config.in_order:
            self._run_in_order(done)
        else:
            self._run_all(missing, done)
        derived = len(done) - skipped
        repaired = () if self._given_up else tuple(self._repair(done))
        return RunReport(derived, skipped, repaired, tuple(self._open), tuple(self._failed), self._given_up)

    def _run_all(self, missing: Sequence[L1Range], done: dict[L1Range, ManifestRow]) -> None:
        """All ranges, until so many fail one after the other that the next would, too."""
        most, failed = max(MOST_FAILED, 2 * self._executor.workers), 0
        with closing(self._outcomes([self._task(item, self._first_head(item)) for item in missing])) as outcomes:
            for outcome in outcomes:
                if outcome.row is not None:
                    done[outcome.row.range] = outcome.row
                failed = failed + 1 if outcome.row is None else 0
                if failed == most:
                    self._given_up = f"{failed} ranges failed one after the other, the last with: {outcome.error}"
                    return

    def _first_head(self, l1_range: L1Range) -> int | None:
        return self._run.config.safe_head if l1_range.first == self._run.config.first else None

    def _run_in_order(self, done: dict[L1Range, ManifestRow]) -> None:
        """Each range from the end of the one before; the first that fails is the last."""
        head, resume = self._run.config.safe_head, self._genesis
        previous: L1Range | None = None
        for item in self._run.plan:
            if item not in done:
                after = previous if resume and previous in done else None
                task = self._task(item, None if resume else head)
                task = msgspec.structs.replace(task, resume=resume, after=after)
                (outcome,) = self._outcomes([task])
                if outcome.row is None:
                    return
                done[item] = outcome.row
            head, resume, previous = done[item].end.safe.number, done[item].resume, item

    def _repair(self, done: dict[L1Range, ManifestRow]) -> Iterator[str]:
        """Run each range again whose start is not the end of the one before, from that end, in order of L1.

        Its own end may change with it."""
        plan = self._run.plan
        for before, item in pairwise(plan):
            if before not in done or item not in done:
                continue
            end, row = done[before].end, done[item]
            differs = differences(end, row.start)
            if not differs:
                continue
            text = f"seam L1 {before.last}/{item.first}: {', '.join(differs)} differ"
            if row.repaired == row.start.digest:
                self._open.append(f"{text}, also after a run from the end of the range before")
                continue
            resume = done[before].resume
            head = end.safe.number if row.has_verdicts and resume is None else None
            task = self._task(item, head, row.start.digest, done[before].batcher)
            task = msgspec.structs.replace(task, resume=resume, after=before if resume else None)
            (outcome,) = self._outcomes([task])
            if outcome.row is None:
                yield f"{text}; the range could not be run again"
                continue
            done[item] = outcome.row
            left = differences(end, outcome.row.start)
            yield f"{text}; run again from the end of L1 block {before.last}" + (
                f": {', '.join(left)} still differ" if left else ": it closes"
            )
            self._open += [f"{text} after a second run"] if left else []

    def _outcomes(self, tasks: list[RangeTask]) -> Generator[Outcome[RangeTask, ManifestRow]]:
        with closing(self._executor.run(tasks, run_range)) as outcomes:
            for outcome in outcomes:
                if outcome.row is None:
                    task = outcome.task
                    self._failed.append(f"L1 blocks {task.first} to {task.last}: {outcome.error}")
                self._tell(outcome)
                yield outcome

    def _task(
        self, l1_range: L1Range, safe_head: int | None, repaired: str | None = None, batcher: str | None = None
    ) -> RangeTask:
        config = self._run.config
        return RangeTask(
            out=str(self._folder.path),
            first=l1_range.first,
            last=l1_range.last,
            config=self._config,
            version=self._version,
            form=config.form,
            arguments=self._arguments,
            warmup=config.warmup,
            floor=self._floor,
            safe_head=safe_head,
            repaired=repaired,
            batcher=batcher or config.batcher,
        )


def with_last(run: RunFile, known: RunFile | None) -> RunFile:
    """Return the run, as long as it was asked for before at least."""
    return run if known is None or known.last <= run.last else msgspec.structs.replace(run, last=known.last)


def rate(rows: Mapping[L1Range, ManifestRow]) -> float:
    """L1 blocks a second of one worker in the ranges that are done; 0 without any."""
    seconds = sum(row.seconds for row in rows.values())
    return sum(row.blocks for row in rows) / seconds if seconds > 0 else 0.0
