"""Races a node over a prepared course: how fast it catches up, and what that costs, at each latency of L1.

    python -m rollup_node.tools.bench.race --course FOLDER            # builds the course there the first time
    python -m rollup_node.tools.bench.race --course FOLDER --latency 50 --busy 2
    python -m rollup_node.tools.bench.race --course FOLDER --json --op-node PATH
    python -m rollup_node.tools.bench.race --course FOLDER --tip 20   # and five minutes at the tip
    python -m rollup_node.tools.bench.race --course FOLDER --kind full60
    python -m rollup_node.tools.bench.race --course FOLDER --chains 3 # the first chain alone, and a supernode with all
    python -m rollup_node.tools.bench.race --course FOLDER --engine http://127.0.0.1:8551 --engine-command ./start

The node is started as its users start it, without P2P. Its L1, Beacon API and engine are one process whose answers are
prepared, and whose own CPU is printed. Only runs that end with the course's safe head count. With --op-node that binary
runs in turn with this node. The default course takes some ten seconds to build and 250 MB; those of full L1 blocks some
thirty seconds and 700 MB.

With --engine a real engine executes the course while it is made, and takes the place of the prepared answers; a plain
client then runs in turn with the nodes, whose blocks per second are the limit of that engine. The shell runs
--engine-command before each run in an empty folder, with the paths of genesis file and JWT secret in GENESIS and JWT
(docs/performance.md has it for op-geth and op-reth). Without it the engine is started by hand, once to make the course
and once for a run."""

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import msgspec
import orjson

from rollup_node.tools.bench.measure import Figure, show
from rollup_node.tools.bench.race.course import prepare
from rollup_node.tools.bench.race.course_files import KINDS, CourseFiles, CourseSize
from rollup_node.tools.bench.race.executed import FreshEngine
from rollup_node.tools.bench.race.node_run import L1_BLOCK_SECONDS, TIP, RaceError, TipRun, run_tip
from rollup_node.tools.bench.race.plain_client import EngineError
from rollup_node.tools.bench.race.programs import (
    LIMIT,
    OURS,
    SUPERNODE,
    RaceProgram,
    limit,
    op_node,
    rollup_node,
    supernode,
)
from rollup_node.tools.bench.race.report import Runs, chain_figures, figures, report, tip_figures
from rollup_node.tools.bench.race.runner import RaceRun, run_once


def main(argv: Sequence[str] | None = None) -> int:
    """Print the figures; 1 when a bound is exceeded, a floor missed, or a run gives no figures."""
    parser = _parser()
    args = parser.parse_args(sys.argv[1:] if argv is None else argv)
    if args.op_node is not None and not os.access(args.op_node, os.X_OK):
        parser.error(f"--op-node {args.op_node} is no program")
    size = _size(args)
    engine = FreshEngine(args.engine, args.engine_command) if args.engine else None
    programs = [rollup_node(args.node_option)] + ([supernode(args.node_option)] if size.chains > 1 else [])
    programs += [] if args.op_node is None else [op_node(args.op_node)]
    programs += [limit()] if engine and args.engine_command else []
    with ExitStack() as stack:
        folder = args.course or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="race-course-")))
        try:
            with _prepared(folder, size, engine) as course:
                runs = _race(course, programs, args, engine)
            tips: dict[str, TipRun] = {}
            if args.tip:
                with _prepared(folder / "tip", TIP) as course:
                    tips = {program.name: run_tip(course, program, L1_BLOCK_SECONDS, args.tip) for program in programs}
        except (RaceError, EngineError) as error:
            print(f"race: {error}", file=sys.stderr)
            return 1
    return _show(size, runs, tips, args)


@contextmanager
def _prepared(folder: Path, size: CourseSize, engine: FreshEngine | None = None) -> Iterator[CourseFiles]:
    prepare(folder, size, engine)
    with closing(CourseFiles(folder)) as course:
        yield course


def _size(namespace: argparse.Namespace) -> CourseSize:
    """Return the size of the kind, with what was given in its place; an engine executes what it is raced with."""
    asked = {name: getattr(namespace, name) for name in CourseSize.__struct_fields__}
    changes = {name: value for name, value in asked.items() if value is not None}
    return msgspec.structs.replace(KINDS[namespace.kind], **({"executed": 1} if namespace.engine else {}), **changes)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--course", type=Path, help="the folder of the prepared course; not given: a temporary one")
    parser.add_argument("--latency", type=float, nargs="+", default=[0.0, 50.0, 100.0], help="of L1, in milliseconds")
    parser.add_argument("--runs", type=int, default=3, help="with each latency")
    parser.add_argument("--warm-up", type=int, default=1, help="runs with the first latency that are not counted")
    parser.add_argument("--busy", type=int, default=0, help="processes that keep cores busy during the runs")
    parser.add_argument("--tip", type=int, default=0, help="measure also at the tip, over that many L1 blocks of 12 s")
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds of a run")
    parser.add_argument("--op-node", type=Path, help="a binary of op-node, which runs in turn with this node")
    parser.add_argument("--node-option", action="append", default=[], help="a further argument of this node")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    parser.add_argument("--kind", choices=KINDS, default="2023", help="L1 of 2023, or full blocks of 60 or 200 Mgas")
    parser.add_argument("--engine", help="the URL of a real engine, with the JWT secret of the course")
    parser.add_argument("--engine-command", help="starts that engine for each run, with an empty database")
    for name in CourseSize.__struct_fields__:
        text = "of the course: " + ", ".join(f"{getattr(size, name)} of {kind}" for kind, size in KINDS.items())
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, help=text)
    return parser


def _race(
    course: CourseFiles, programs: Sequence[RaceProgram], namespace: argparse.Namespace, engine: FreshEngine | None
) -> dict[str, Runs]:
    """Return the runs of each program by latency; the programs take turns."""
    result: dict[str, dict[float, list[RaceRun]]] = {program.name: {} for program in programs}
    for program in programs:
        for _ in range(namespace.warm_up):
            run_once(course, program, namespace.latency[0], namespace.busy, namespace.timeout, engine)
    for latency in namespace.latency:
        for _ in range(namespace.runs):
            for program in programs:
                run = run_once(course, program, latency, namespace.busy, namespace.timeout, engine)
                result[program.name].setdefault(latency, []).append(run)
                text = f"{program.name}, {latency:g} ms: {run.blocks_per_second:.0f} blocks/s, load {run.load:.1f}"
                print(text, file=sys.stderr, flush=True)
    return {**result}


def _show(size: CourseSize, runs: dict[str, Runs], tips: dict[str, TipRun], namespace: argparse.Namespace) -> int:
    shown: list[tuple[str, list[Figure]]] = []
    for name, by_latency in runs.items():
        is_ours = name == OURS
        limits = runs.get(LIMIT, {}) if name != LIMIT else {}
        for latency, some in by_latency.items():
            title = f"{name}, {size.l2_blocks} L2 blocks over {size.l1_blocks} L1 blocks, L1 at {latency:g} ms"
            title += f", {namespace.busy} busy loops" if namespace.busy else ""
            shown.append((title, figures(some, size, namespace.busy, is_ours, limits.get(latency, ()))))
            if name == SUPERNODE:
                shown.append((f"{title}: all chains against one", chain_figures(some, runs[OURS][latency], size)))
        if name in tips:
            tip = tips[name]
            shown.append(
                (f"{name} at the tip, {tip.l1_blocks} L1 blocks in {tip.seconds:.0f} s", tip_figures(tip, is_ours))
            )
    if namespace.json:
        print(orjson.dumps(report(size, namespace.busy, runs, tips)).decode())
        return int(any(figure.is_missed for _, some in shown for figure in some))
    return max((show(title, some) for title, some in shown), default=0)


if __name__ == "__main__":
    sys.exit(main())
