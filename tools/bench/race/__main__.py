"""Races a node over a prepared course: how fast it catches up, and what that costs, at each latency of L1.

    python -m rollup_node.tools.bench.race --course FOLDER            # builds the course there the first time
    python -m rollup_node.tools.bench.race --course FOLDER --latency 50 --busy 2
    python -m rollup_node.tools.bench.race --course FOLDER --json --op-node PATH

The node is started as its users start it, without P2P. Its L1, Beacon API and engine are one process whose answers are
prepared, and whose own CPU is printed. Only runs that end with the course's safe head count. With --op-node that binary
runs in turn with this node. The default course takes about half a minute to build and 200 MB."""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import orjson

from rollup_node.tools.bench.measure import show
from rollup_node.tools.bench.race.course import prepare
from rollup_node.tools.bench.race.course_files import CourseFiles
from rollup_node.tools.bench.race.course_size import CourseSize
from rollup_node.tools.bench.race.programs import RaceProgram, op_node, rollup_node
from rollup_node.tools.bench.race.report import figures, report
from rollup_node.tools.bench.race.runner import RaceError, RaceRun, run_once

DEFAULT = CourseSize()


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the figures; 1 when a bound is exceeded, a floor missed, or a run gives no figures."""
    given = _parser().parse_args(sys.argv[1:] if argv is None else argv)
    sizes = {name: getattr(given, name) for name in CourseSize.__struct_fields__}
    with ExitStack() as stack:
        folder = given.course or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="race-course-")))
        prepare(folder, CourseSize(**sizes))
        course = CourseFiles(folder)
        stack.callback(course.close)
        programs = [rollup_node(given.node_option)]
        if given.op_node is not None:
            programs.append(op_node(given.op_node))
        try:
            runs = _race(course, programs, given)
        except RaceError as error:
            print(f"race: {error}", file=sys.stderr)
            return 1
        return _show(course, runs, given)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--course", type=Path, help="the folder of the prepared course; not given: a temporary one")
    parser.add_argument("--latency", type=float, nargs="+", default=[0.0, 50.0, 100.0], help="of L1, in milliseconds")
    parser.add_argument("--runs", type=int, default=3, help="with each latency")
    parser.add_argument("--warm-up", type=int, default=1, help="runs with the first latency that are not counted")
    parser.add_argument("--busy", type=int, default=0, help="processes that keep cores busy during the runs")
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds of a run")
    parser.add_argument("--op-node", type=Path, help="a binary of op-node, which runs in turn with this node")
    parser.add_argument("--node-option", action="append", default=[], help="a further argument of this node")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    for name in CourseSize.__struct_fields__:
        text = f"of the course, by default {getattr(DEFAULT, name)}"
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=getattr(DEFAULT, name), help=text)
    return parser


def _race(
    course: CourseFiles, programs: Sequence[RaceProgram], given: argparse.Namespace
) -> list[dict[float, list[RaceRun]]]:
    """The runs of each program by latency; the programs take turns."""
    for program in programs:
        for _ in range(given.warm_up):
            run_once(course, program, given.latency[0], given.busy, given.timeout)
    found: list[dict[float, list[RaceRun]]] = [{latency: [] for latency in given.latency} for _ in programs]
    for latency in given.latency:
        for _ in range(given.runs):
            for program, runs in zip(programs, found, strict=True):
                run = run_once(course, program, latency, given.busy, given.timeout)
                runs[latency].append(run)
                text = f"{program.name}, {latency:g} ms: {run.blocks_per_second:.0f} blocks/s, load {run.load:.1f}"
                print(text, file=sys.stderr, flush=True)
    return found


def _show(course: CourseFiles, runs: Sequence[dict[float, list[RaceRun]]], given: argparse.Namespace) -> int:
    size, failed = course.facts.size, 0
    if given.json:
        print(orjson.dumps(report(size, given.busy, runs[0], runs[1] if len(runs) > 1 else {})).decode())
    for name, bounded, found in zip(("rollup-node", "op-node"), (True, False), runs, strict=False):
        for latency, some in found.items():
            shown = figures(some, size, given.busy, bounded)
            title = f"{name}, {size.l2_blocks} L2 blocks over {size.l1_blocks} L1 blocks, L1 at {latency:g} ms"
            if given.busy:
                title += f", {given.busy} busy loops"
            failed |= any(each.is_missed for each in shown) if given.json else show(title, shown)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
