"""A run over simulated ranges: what is skipped, what fails, and how seams are repaired."""

from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rollup_node.tools.history.folder import HistoryFolder, RunFile
from rollup_node.tools.history.manifest import NO_BLOCK, Block, L1Range, ManifestRow, RunConfig, genesis_resume
from rollup_node.tools.history.range_task import RangeTask
from rollup_node.tools.history.run import HistoryRun, RunReport, rate, with_last
from rollup_node.tools.history.runner import Outcome
from tests.support.chains.history_values import row
from tests.support.chains.plain_rollup import PLAIN_ROLLUP

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
        made = row(task.first, task.last, task.config)
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
            made = row(task.first, task.last, task.config)
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


def test_a_longer_run_keeps_what_is_there() -> None:
    assert with_last(RUN, None) == RUN == with_last(RUN, msgspec.structs.replace(RUN, last=120))
    assert with_last(RUN, msgspec.structs.replace(RUN, last=200)).last == 200


def test_the_rate_is_that_of_one_worker() -> None:
    rows = {L1Range(100, 109): row(100, 109), L1Range(110, 119): row(110, 119)}
    assert rate(rows) == pytest.approx(10.0) and rate({}) == 0.0
