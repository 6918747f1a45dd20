"""The commands `tools/chaos soak` and `tools/chaos report`."""

import argparse
import asyncio
import os
import random
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rollup_node.tools.devnet.run import data_directory
from rollup_node.tools.devnet.soak.lanes import LEAST_PAUSE
from rollup_node.tools.devnet.soak.programs import usable_faults
from rollup_node.tools.devnet.soak.report import Line, ReportError, Totals, add_up, encode, table, with_table
from rollup_node.tools.devnet.soak.run import SoakSettings, soak
from rollup_node.tools.faults.scenario import parse_scenarios

SCENARIOS = Path(__file__).parents[2] / "faults" / "scenarios.toml"
TABLE = "soak"
LEAST_NODES, MOST_NODES = 3, 5


class SoakError(Exception):
    """A flag or a file cannot be used; the text is one line for the user."""


def soak_command(namespace: argparse.Namespace) -> int:
    """Exit with 0 if the soak passed. Raises SoakError, ReportError and what a network raises."""
    seconds = 3600 * (namespace.hours or 0) + 60 * (namespace.minutes or 0)
    if not 0 < seconds < float("inf"):
        raise SoakError("--hours or --minutes: give a time above 0")
    if not LEAST_NODES <= namespace.nodes <= MOST_NODES:
        raise SoakError(f"--nodes: must be {LEAST_NODES} to {MOST_NODES}, not {namespace.nodes}")
    if not LEAST_PAUSE <= namespace.pause <= 3600:
        raise SoakError(f"--pause: must be {LEAST_PAUSE:g} to 3600 seconds, not {namespace.pause:g}")
    seed = random.SystemRandom().randrange(1 << 32) if namespace.seed is None else namespace.seed
    before = read(namespace.report) if namespace.report and namespace.report.exists() else Totals()
    name = f"{len(before.runs) + 1}"
    scenarios = usable_faults(parse_scenarios(SCENARIOS.read_text()))
    settings = SoakSettings(name, seconds, seed, namespace.nodes, namespace.pause, scenarios, namespace.log_level)
    settings.devnet()  # its flags are right
    print(f"run {name}: {namespace.nodes} nodes for {seconds / 60:.0f} minutes, seed {seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="rollup-soak-") as folder:
        report = namespace.report or Path(folder) / "report.jsonl"
        with appended(report) as write, data_directory(namespace.data_dir) as root:
            ended = asyncio.run(soak(settings, root, write, lambda text: print(text, flush=True)))
        print("\n".join(table(read(report))))
    if not ended.equal or ended.problems:
        same = f"--seed {seed} --nodes {namespace.nodes} --pause {namespace.pause:g}"
        print(f"FAILED; the same schedule: tools/chaos soak {same}")
        return 1
    return 0


def report_command(namespace: argparse.Namespace) -> int:
    """Print the sums of a report. Raises ReportError, and PageError for a page without a place for them."""
    lines = list(table(read(namespace.file)))
    print("\n".join(lines))
    if namespace.page is not None:
        namespace.page.write_text(with_table(namespace.page.read_text(), TABLE, lines))
    return 0


def read(path: Path) -> Totals:
    """Return the sums of a report. Raises ReportError."""
    try:
        with path.open("rb") as file:
            return add_up(file)
    except ReportError as error:
        raise ReportError(f"{path}: {error}; give another file, or remove the line") from None


@contextmanager
def appended(path: Path) -> Iterator[Callable[[Line], None]]:
    """Yield a function that appends lines to a report, each at once.

    A line that a killed run left incomplete is removed."""
    with path.open("a+b") as file:
        end = file.tell()
        file.seek(0)
        complete = sum(len(line) for line in file if line.endswith(b"\n"))
        if complete != end:
            file.truncate(complete)

        def write(line: Line) -> None:
            os.write(file.fileno(), encode(line))

        yield write


def add_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add both commands to those of `tools/chaos`."""
    command = commands.add_parser("soak", help="random kills, stops, faults, reorgs, leaves and joins")
    command.add_argument("--hours", type=float)
    command.add_argument("--minutes", type=float)
    command.add_argument("--seed", type=int, help="of the schedule; without it a random one")
    command.add_argument("--nodes", type=int, default=4, help="3 to 5, the sequencer included")
    command.add_argument("--pause", type=float, default=9.0, help="mean seconds between two actions on a node")
    command.add_argument("--report", type=Path, metavar="FILE", help="append to this file, whose runs add up")
    command.add_argument("--data-dir", type=Path, help="keep logs here")
    command.add_argument("--log-level", default="info", help="of the nodes")
    command = commands.add_parser("report", help="print the sums of a report")
    command.add_argument("file", type=Path, metavar="FILE")
    command.add_argument("--page", type=Path, metavar="FILE", help="write the table into this page too")
