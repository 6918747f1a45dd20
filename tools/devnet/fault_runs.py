"""`tools/chaos`: runs the fault scenarios on a local network.

    tools/chaos list
    tools/chaos run --minutes 10 --seed 7
    tools/chaos run --only l1-status --only reorg
    tools/chaos run --file my-scenarios.toml --json
    tools/chaos table results.json --page docs/chaos.md
    tools/chaos soak --help
    tools/chaos report --help

The order of the scenarios and what is random in each follow from the seed; `run --seed S --only NAME` replays one."""

import argparse
import asyncio
import dataclasses
import json
import os
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rollup_node.tools.devnet.endings import exit_code
from rollup_node.tools.devnet.environment import commit_of_checkout, machine_text
from rollup_node.tools.devnet.page import PageError, with_table
from rollup_node.tools.devnet.run import RunResult, data_directory, run
from rollup_node.tools.devnet.settings import parse
from rollup_node.tools.devnet.view import choose
from rollup_node.tools.faults.results import ResultsError, parse_run, results_table
from rollup_node.tools.faults.scenario import Scenario, parse_scenarios, select
from rollup_node.tools.faults.verdict import Verdict, summary, table

TABLE = "scenarios"
SCENARIOS = Path(__file__).parents[1] / "faults" / "scenarios.toml"


def main(argv: Sequence[str] | None = None) -> int:
    """Exits with 0 if every scenario passed and the nodes have one chain."""
    given = _parser().parse_args(sys.argv[1:] if argv is None else argv)
    return exit_code(lambda: _COMMANDS[given.command](given))


def _scenarios(given: argparse.Namespace) -> tuple[Scenario, ...]:
    return select(parse_scenarios(given.file.read_text()), given.only, given.case)


def _list(given: argparse.Namespace) -> int:
    print("\n".join(f"{each.name:44} {' '.join(each.cases)}".rstrip() for each in _scenarios(given)))
    return 0


def _run(given: argparse.Namespace) -> int:
    started = time.monotonic()
    settings = dataclasses.replace(
        parse([*(["--data-dir", str(given.data_dir)] if given.data_dir else []), "--seed", str(given.seed)]),
        scenarios=_order(_scenarios(given), given.seed, given.minutes),
        scenario_seconds=60 * given.minutes if given.minutes else None,
        json=given.json,
    )
    with data_directory(settings.data_dir) as root:
        result = asyncio.run(run(settings, root, choose(given.json, None), started))
    if given.json:
        print(json.dumps(_as_json(result, given.seed, time.monotonic() - started)))
    else:
        _print(result.verdicts, given.seed)
        print("output roots equal" if result.output_roots_equal else "output roots DIFFER")
    return 0 if result.passed else 1


def _as_json(result: RunResult, seed: int, seconds: float) -> dict[str, Any]:
    place = {"commit": commit_of_checkout(), "machine": machine_text(), "load": round(os.getloadavg()[2], 2)}
    scenarios = [*map(summary, result.verdicts)]
    found = {"seed": seed, "equal": result.output_roots_equal, "minutes": round(seconds / 60, 1), **place}
    return {**found, "scenarios": scenarios}


def _table(given: argparse.Namespace) -> int:
    runs = []
    for path in given.files:
        try:
            runs += [parse_run(line) for line in path.read_bytes().splitlines() if line.strip()]
        except ResultsError as error:
            print(f"error: {path}: {error}", file=sys.stderr)
            return 1
    lines = list(results_table(runs))
    print("\n".join(lines))
    try:
        if given.page is not None:
            given.page.write_text(with_table(given.page.read_text(), TABLE, lines))
    except PageError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _print(verdicts: Sequence[Verdict], seed: int) -> None:
    for line in table(verdicts):
        print(line)
    for verdict in verdicts:
        if not verdict.passed:
            print(f"replay: tools/chaos run --seed {seed} --only {verdict.scenario.name}")


def _order(scenarios: Sequence[Scenario], seed: int, minutes: float | None) -> tuple[Scenario, ...]:
    """The scenarios in random order; with `minutes` again and again, more than fit into that time."""
    chance = random.Random(seed)
    seconds = sum(each.seconds for each in scenarios)
    rounds = 1 if minutes is None else 1 + int(60 * minutes / seconds)
    return tuple(each for _ in range(rounds) for each in chance.sample(scenarios, len(scenarios)))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tools/chaos", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name, text in (("list", "names of the scenarios"), ("run", "run them")):
        command = commands.add_parser(name, help=text)
        command.add_argument("--file", type=Path, default=SCENARIOS, help="a file of scenarios instead of our own")
        command.add_argument("--only", action="append", default=[], metavar="NAME", help="those that begin with NAME")
        command.add_argument("--case", action="append", default=[], metavar="F", help="those of this case, such as F7")
    tabling = commands.add_parser("table", help="print the results of runs with --json as a table")
    tabling.add_argument("files", type=Path, nargs="+", metavar="FILE")
    tabling.add_argument("--page", type=Path, metavar="PAGE", help="write the table into this page too")
    command.add_argument("--minutes", type=float, help="repeat them, and begin none after this time")
    command.add_argument("--seed", type=int, default=0)
    command.add_argument("--data-dir", type=Path, help="keep logs here")
    command.add_argument("--json", action="store_true", help="print one line of JSON")
    return parser


_COMMANDS = {"list": _list, "run": _run, "table": _table}


if __name__ == "__main__":
    sys.exit(main())
