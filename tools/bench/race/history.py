"""Measures `history run` over a prepared course.

One worker against `replay`, W workers on W cores against one on one core, Parquet against JSON lines, and the memory of
a worker. All but the first two kinds read L1 from an archive, which
a run before them fills. The server, which still has L2 blocks to send, runs on the same cores as the workers: a core of
its own would help only one worker. The cores of a virtual machine may share one physical core: what W plain loops on W
cores do of one stands beside the figure. Each range takes two seconds of CPU to start and is read from some 80 L1
blocks before it, so that short courses miss the targets.

    python -m rollup_node.tools.bench.race.history --workers 2
    python -m rollup_node.tools.bench.race.history --course FOLDER --l1-blocks 1200"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from rollup_node.tools.bench.measure import Figure, show
from rollup_node.tools.bench.race.course import prepare
from rollup_node.tools.bench.race.course_files import CourseFacts, CourseSize
from rollup_node.tools.bench.race.node_run import ServerProcess
from rollup_node.tools.bench.race.programs import memory_of_tree

WORKER_SHARE = 0.85
REPLAY_SHARE = 0.9
OVERHEAD = 0.05
WORKER_MB = 300.0
SAMPLE_SECONDS = 0.5
WARMUP = 40
"""L1 blocks: more than those of a channel of the course."""
PLAIN_LOOP = "for number in range(40_000_000): pass"
PER_L1_BLOCK = CourseSize().l2_blocks / CourseSize().l1_blocks


class Course(NamedTuple):
    """A course that is served by a process."""

    facts: CourseFacts
    options: tuple[str, ...]
    server: int


class Run(NamedTuple):
    """Wall-clock seconds of a command, and the peak memory of it and its descendants in MiB."""

    seconds: float
    memory: float


def main(argv: Sequence[str] | None = None) -> int:
    """Print the figures; 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--course", type=Path, help="the folder of the prepared course; not given: a temporary one")
    parser.add_argument("--l1-blocks", type=int, default=CourseSize().l1_blocks, help="of the course")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3, help="of the runs that are compared")
    args = parser.parse_args(sys.argv[1:] if argv is None else argv)
    with tempfile.TemporaryDirectory(prefix="history-bench-") as temporary:
        folder = args.course or Path(temporary) / "course"
        size = CourseSize(l1_blocks=args.l1_blocks, l2_blocks=int(args.l1_blocks * PER_L1_BLOCK))
        with served(folder, size) as course:
            figures = measured(course, Path(temporary), args.workers, args.repeats)
    return show("History", figures)


@contextmanager
def served(folder: Path, size: CourseSize) -> Iterator[Course]:
    """Build a course unless it is there, and serve it with all its L2 blocks."""
    facts = prepare(folder, size)
    with ServerProcess(folder, ["--complete"]) as server:
        urls = server.urls
        options = ("--l1", urls.l1, "--l1.beacon", urls.beacon, "--l2", urls.engine)
        yield Course(facts, (*options, "--rollup.config", str(folder / "rollup.json"), "--timeout", "60s"), server.pid)


def measured(course: Course, folder: Path, workers: int, repeats: int) -> list[Figure]:
    """Return the figures of a course; runs that are compared take turns.

    Raises subprocess.CalledProcessError where a command fails."""
    blocks = len(course.facts.l2_hashes) - 1
    whole = course.facts.l1_head - course.facts.l1_genesis
    part = -(-whole // workers)
    archive = ("--archive", str(folder / "archive"))
    history(course, folder / "archived", whole, 1, *archive)
    replays, firsts, overheads, outside, speedups, ceilings = [], [], [], [], [], []
    for turn in range(repeats):
        replays.append(run_command("replay", *course.options, "--from-l2", "0", "--to-l2", str(blocks), "--json"))
        firsts.append(history(course, folder / f"first-{turn}", whole, 1))
        lines = history(course, folder / f"lines-{turn}", whole, 1, "--jsonl", *archive)
        parquet = history(course, folder / f"parquet-{turn}", whole, 1, *archive)
        with on_cores(1, course.server):
            one = history(course, folder / f"one-{turn}", part, 1, *archive)
            loop = plain_loops(1)
        with on_cores(workers, course.server):
            many = history(course, folder / f"many-{turn}", part, workers, *archive)
            loops = plain_loops(workers)
        overheads.append(parquet.seconds / lines.seconds - 1)
        outside.append(1 - seconds_in_ranges(folder / f"one-{turn}") / one.seconds)
        speedups.append(one.seconds / many.seconds)
        ceilings.append(workers * loop / loops)
    of_ceiling = tuple(speedup / ceiling for speedup, ceiling in zip(speedups, ceilings, strict=True))
    of_replay = tuple(replay.seconds / first.seconds for replay, first in zip(replays, firsts, strict=True))
    cores = f"{workers} workers on {workers} cores over one on one"
    return [
        Figure("replay", "L2 blocks/s", tuple(blocks / replay.seconds for replay in replays)),
        Figure("one worker, one range", "L2 blocks/s", tuple(blocks / first.seconds for first in firsts)),
        Figure("of replay's rate", "", of_replay, floor=REPLAY_SHARE),
        Figure("Parquet over JSON lines", "of the time", tuple(overheads), bound=OVERHEAD),
        Figure("outside of ranges", "of the time", tuple(outside)),
        Figure(cores, "times", tuple(speedups), floor=WORKER_SHARE * workers),
        Figure(f"{workers} plain loops on {workers} cores over one on one", "times", tuple(ceilings)),
        Figure("the first of the second", "", of_ceiling, floor=WORKER_SHARE),
        Figure("memory of one worker", "MiB", tuple(first.memory for first in firsts), bound=WORKER_MB),
    ]


def seconds_in_ranges(out: Path) -> float:
    """Return the seconds that the ranges of a history took, by their manifests."""
    return float(sum(json.loads(path.read_text())["seconds"] for path in (out / "manifest").glob("range-*.json")))


def plain_loops(count: int) -> float:
    """Seconds in which so many processes at the same time each run a loop of pure Python."""
    began = time.monotonic()
    processes = [subprocess.Popen([sys.executable, "-S", "-c", PLAIN_LOOP]) for _ in range(count)]
    for process in processes:
        if process.wait():
            raise subprocess.CalledProcessError(process.returncode, process.args)
    return time.monotonic() - began


@contextmanager
def on_cores(count: int, server: int) -> Iterator[None]:
    """Yield what is started within runs on so many cores, or on all that there are, and so does the server.

    A worker's processes would use more."""
    before = os.sched_getaffinity(0)
    processes = (0, server)
    try:
        for process in processes:
            os.sched_setaffinity(process, sorted(before)[:count])
        yield
    finally:
        for process in processes:
            os.sched_setaffinity(process, before)


def history(course: Course, out: Path, size: int, workers: int, *more: str) -> Run:
    """Run the history of a course in ranges of so many L1 blocks."""
    facts = course.facts
    flags = ("--from-l1", str(facts.l1_genesis + 1), "--to-l1", str(facts.l1_head), "--out", str(out))
    ranges = ("--range-size", str(size), "--workers", str(workers), "--warmup", str(WARMUP))
    return run_command("history", "run", *course.options, *flags, *ranges, *more)


def run_command(*words: str) -> Run:
    """Run a command of the node to its end. Raises subprocess.CalledProcessError where it fails."""
    began, peak = time.monotonic(), 0.0
    command = [sys.executable, "-m", "rollup_node", *words]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        text: list[bytes] = []
        reader = threading.Thread(target=lambda stream: text.append(stream.read()), args=(process.stderr,))
        reader.start()
        while process.poll() is None:
            peak = max(peak, memory_of_tree(process.pid))
            time.sleep(SAMPLE_SECONDS)
        reader.join()
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command, stderr=b"".join(text))
    return Run(time.monotonic() - began, peak)


if __name__ == "__main__":
    sys.exit(main())
