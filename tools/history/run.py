"""A run: the missing ranges, then the seams that do not close."""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import pairwise
from typing import NamedTuple

import msgspec

from rollup_node.tools.history.folder import HistoryFolder, RunFile
from rollup_node.tools.history.manifest import L1Range, ManifestRow, Resume
from rollup_node.tools.history.range_task import RangeTask, run_range
from rollup_node.tools.history.runner import Executor, Outcome
from rollup_node.tools.history.start_stage import differences, progress

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
