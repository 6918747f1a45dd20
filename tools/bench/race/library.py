"""Measures the library and witnesses against `replay` over a prepared course, by commands that take turns.

A user waits for a witness, whose files all cores write; beside the time stands the CPU time, which counts where no core
is idle. Two cores that others use as well do not hold the bound of the time.

The Beacon API gives no proofs of blobs, like beacon nodes of today. Files are the dearest part of a witness, so that
what creating the same files takes alone stands beside it: no witness in kona-host's directory format can cost less.
Deleted files make this dearer for a minute.

    python -m rollup_node.tools.bench.race.library
    python -m rollup_node.tools.bench.race.library --course FOLDER --l1-blocks 340"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from rollup_node.tools.bench.measure import Figure, show
from rollup_node.tools.bench.race.course_files import CourseSize
from rollup_node.tools.bench.race.history import PER_L1_BLOCK, Course, served

RATE, WITNESS, IMPORT = 0.9, 1.3, 0.25
NODE = ("-m", "rollup_node")
DERIVE = """
import sys, rollup_node
chain, l1, beacon, l2, last = sys.argv[1:]
blocks = rollup_node.derive(rollup_node.Chain.load(chain), l1=l1, beacon=beacon, l2=l2, from_l2=0, to_l2=int(last))
sys.exit(sum(1 for block in blocks) != int(last))
"""
COMMANDS = ("replay", "derive", "witness")
TIME, CPU = range(2)


class Cost(NamedTuple):
    """Seconds of a command: until it has ended, and of CPU of it and its descendants."""

    time: float
    cpu: float


def main(argv: Sequence[str] | None = None) -> int:
    """Print the figures; 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--course", type=Path, help="the folder of the prepared course; not given: a temporary one")
    parser.add_argument("--l1-blocks", type=int, default=170, help="of the course: 170 have 1,003 L2 blocks")
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args(sys.argv[1:] if argv is None else argv)
    with tempfile.TemporaryDirectory(prefix="library-bench-") as temporary:
        folder = args.course or Path(temporary) / "course"
        size = CourseSize(l1_blocks=args.l1_blocks, l2_blocks=int(args.l1_blocks * PER_L1_BLOCK), sidecars=0)
        with served(folder, size) as course:
            return show("The library and witnesses", measured(course, Path(temporary), args.repeats))


def measured(course: Course, folder: Path, repeats: int) -> list[Figure]:
    """Return the figures of a course. Raises subprocess.CalledProcessError where a command fails."""
    runs: dict[str, list[Cost]] = {name: [] for name in (*COMMANDS, "import", "files")}
    for turn in range(repeats):
        words = _words(course, folder / f"witness-{turn}")
        for name in COMMANDS if turn % 2 else reversed(COMMANDS):
            runs[name].append(cost(*words[name]))
        runs["import"].append(cost("-c", "import rollup_node"))
        runs["files"].append(cost_of_files(folder / f"witness-{turn}", folder / f"files-{turn}"))

    def over_replay(name: str, of: int) -> tuple[float, ...]:
        return tuple(own[of] / replay[of] for own, replay in zip(runs[name], runs["replay"], strict=True))

    rates = tuple(1 / value for value in over_replay("derive", CPU))
    return [
        *_seconds(f"replay of {len(course.facts.l2_hashes) - 1} blocks", runs["replay"]),
        Figure("rate of rollup_node.derive over replay's, CPU", "x", rates, floor=RATE),
        *_seconds("witness", runs["witness"]),
        Figure("witness over replay, time", "x", over_replay("witness", TIME), WITNESS),
        Figure("witness over replay, CPU", "x", over_replay("witness", CPU)),
        Figure("creating the same files alone, CPU", "x", over_replay("files", CPU)),
        Figure("import rollup_node, CPU", "s", tuple(own.cpu for own in runs["import"]), IMPORT),
    ]


def _seconds(name: str, runs: Sequence[Cost]) -> list[Figure]:
    return [
        Figure(f"{name}, {kind}", "s", values)
        for kind, values in zip(Cost._fields, zip(*runs, strict=True), strict=True)
    ]


def _words(course: Course, out: Path) -> dict[str, tuple[str, ...]]:
    last = str(len(course.facts.l2_hashes) - 1)
    options = dict(zip(course.options[::2], course.options[1::2], strict=True))
    urls = (options[name] for name in ("--rollup.config", "--l1", "--l1.beacon", "--l2"))
    blocks = (*course.options, "--from-l2", "0", "--to-l2", last)
    return {
        "replay": (*NODE, "replay", *blocks, "--json"),
        "derive": ("-c", DERIVE, *urls, last),
        "witness": (*NODE, "witness", *blocks, "--out", str(out)),
    }


def cost(*words: str) -> Cost:
    """Run Python, and return what it and its descendants take. Raises subprocess.CalledProcessError."""
    with tempfile.TemporaryFile() as errors:
        begun = time.monotonic()
        process = subprocess.Popen([sys.executable, *words], stdout=subprocess.DEVNULL, stderr=errors)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.monotonic() - begun
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            errors.seek(0)
            raise subprocess.CalledProcessError(process.returncode, words, stderr=errors.read())
    return Cost(seconds, usage.ru_utime + usage.ru_stime)


def cost_of_files(like: Path, target: Path) -> Cost:
    """Return what creating files of the same names and sizes as those below a folder takes."""
    files = [(path.relative_to(like), path.stat().st_size) for path in like.glob("*/*")]
    for parent in {name.parent for name, _ in files}:
        (target / parent).mkdir(parents=True)
    data = memoryview(bytes(max(size for _, size in files)))
    begun = Cost(time.monotonic(), time.process_time())
    for name, size in files:
        file = os.open(target / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        os.write(file, data[:size])
        os.close(file)
    return Cost(time.monotonic() - begun.time, time.process_time() - begun.cpu)


if __name__ == "__main__":
    sys.exit(main())
