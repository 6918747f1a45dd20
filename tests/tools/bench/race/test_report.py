"""The figures of a race."""

import msgspec
import orjson

from rollup_node.tools.bench.race.course_size import CourseSize
from rollup_node.tools.bench.race.report import figures, report, summary, tip_figures
from rollup_node.tools.bench.race.runner import RaceRun
from rollup_node.tools.bench.race.server import LastSafe
from rollup_node.tools.bench.race.tip import TipRun


def run(latency: float, speed: float, engine: float = 1.0) -> RaceRun:
    counted = LastSafe(0.0, 1.0, 400, 50_000_000, {"full": 300}, {"full": 1}, 20, 4_000_000, {}, {"new": 9})
    spent = {"engine": engine, "l1": 0.5, "idle": 0.0}
    return RaceRun(latency, speed, 2.0, spent, 9.0, 3.0, 150.0, 0.2, 1.0, 2.0, 8.0, 0.5, 0.1, counted)


def test_bounds_are_those_of_the_default_course_with_quiet_cores() -> None:
    runs = [run(0.0, speed) for speed in (400.0, 510.0, 600.0)]
    found = {figure.name: figure for figure in figures(runs, CourseSize(), 0, bounded=True)}
    assert found["blocks per second"].runs == (400.0, 510.0, 600.0)
    assert found["blocks per second"].floor == 500
    assert found["CPU a block, all processes"].bound == 2.2
    assert (found["L1 bytes"].bound, found["L1 bytes"].median) == (60, 50)
    assert not any(figure.is_missed for figure in found.values())
    assert figures([run(0.0, 499.0)], CourseSize(), 0, bounded=True)[0].is_missed
    for size, busy, bounded in ((CourseSize(l1_blocks=9), 0, True), (CourseSize(), 2, True), (CourseSize(), 0, False)):
        assert all(figure.bound is figure.floor is None for figure in figures(runs, size, busy, bounded))
    assert figures([run(50.0, 1.0)], CourseSize(), 2, bounded=True)[0].floor == 250


def test_processes_are_listed_by_what_they_use() -> None:
    names = [figure.name for figure in figures([run(7.0, 1.0)], CourseSize(), 0, bounded=True)]
    assert names[-2:] == ["  CPU a block of engine", "  CPU a block of l1"]


def test_the_object() -> None:
    ours = {0.0: [run(0.0, 100.0), run(0.0, 300.0)], 50.0: [run(50.0, 40.0, engine=4.0)]}
    found = orjson.loads(orjson.dumps(report(CourseSize(), 2, {"rollup-node": ours}, {})))
    assert found["blocks_per_second"] == {"0": 200, "50": 40}
    assert found["by_latency"]["0"]["blocks_per_second"] == {"median": 200, "least": 100, "most": 300}
    assert found["cpu_ms_per_block_by_process"] == {"engine": 1, "l1": 0.5, "idle": 0}
    assert (found["busy"], found["course"]["l2_blocks"], found["l1_requests"]) == (2, 1770, 400)
    assert "op_node" not in found
    tip = TipRun(2.0, 9.0, 0.5, 1.2, 20, 240.0)
    with_both = report(CourseSize(), 0, {"rollup-node": ours, "op-node": {0.0: [run(0.0, 9.0)]}}, {"op-node": tip})
    assert with_both["op_node"] == summary({0.0: [run(0.0, 9.0)]}) | {"tip": msgspec.structs.asdict(tip)}
    assert "tip" not in with_both


def test_the_bounds_at_the_tip() -> None:
    found = tip_figures(TipRun(1.4, 9.0, 0.5, 1.2, 20, 240.0), bounded=True)
    assert [figure.is_missed for figure in found] == [True, False, False, False]
    assert not any(figure.is_missed for figure in tip_figures(TipRun(9.0, 9.0, 0.5, 9.0, 20, 240.0), bounded=False))
