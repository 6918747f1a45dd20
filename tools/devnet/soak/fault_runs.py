"""`tools/chaos`: runs the fault scenarios on local networks, one after another for those that need different ones.

    tools/chaos list
    tools/chaos run --minutes 10 --seed 7
    tools/chaos run --only l1-status --only reorg
    tools/chaos run --file my-scenarios.toml --json
    tools/chaos table results.json --page docs/evidence/chaos.md
    tools/chaos soak --help
    tools/chaos report --help

The order of the scenarios and what is random in each follow from the seed; `run --seed S --only NAME` replays one."""

import argparse
import dataclasses
import json
import os
import random
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rollup_node.tools.devnet.cli import FAILURES, exit_code, failure_text
from rollup_node.tools.devnet.network import clear
from rollup_node.tools.devnet.run import data_directory, run
from rollup_node.tools.devnet.settings import parse, unmet, with_scenarios
from rollup_node.tools.devnet.soak.cli import SCENARIOS, SoakError, add_commands, report_command, soak_command
from rollup_node.tools.devnet.soak.report import PageError, ReportError, with_table
from rollup_node.tools.devnet.soak.watch import commit_of_checkout, machine_text
from rollup_node.tools.devnet.status import choose
from rollup_node.tools.faults.scenario import Need, Scenario, ScenarioError, parse_scenarios, select
from rollup_node.tools.faults.verdict import ResultsError, Verdict, parse_run, results_table, roots_text, summary, table

TABLE = "scenarios"


@dataclasses.dataclass
class Results:
    """What a run has found so far.

    Verdicts, and for each network whether its nodes have the same output roots, None where it has not come to the
    comparison."""

    verdicts: list[Verdict] = dataclasses.field(default_factory=list)
    are_compared: list[bool | None] = dataclasses.field(default_factory=list)

    @property
    def are_equal(self) -> bool | None:
        """Whether the output roots of all networks are equal, None if they do not differ and some were not compared."""
        if False in self.are_compared:
            return False
        return None if None in self.are_compared else True


def main(argv: Sequence[str] | None = None) -> int:
    """Exit with 0 if every scenario passed and the nodes have one chain."""
    args = _parser().parse_args(sys.argv[1:] if argv is None else argv)
    return exit_code(lambda: _COMMANDS[args.command](args), ScenarioError, SoakError, ReportError, PageError)


def _scenarios(namespace: argparse.Namespace) -> tuple[Scenario, ...]:
    return select(parse_scenarios(namespace.file.read_text()), namespace.only, namespace.case)


def _list(namespace: argparse.Namespace) -> int:
    print("\n".join(f"{item.name:44} {' '.join(item.cases)}".rstrip() for item in _scenarios(namespace)))
    return 0


def _run(namespace: argparse.Namespace) -> int:
    started, chosen = time.monotonic(), _scenarios(namespace)
    skipped = {item.name: reason for item in chosen if (reason := unmet(item)) is not None}
    results = Results()
    try:
        _run_networks(namespace, [item for item in chosen if item.name not in skipped], started, results)
    except BaseException:
        if results.are_compared:
            _show(namespace, results, skipped, started)
        raise
    _show(namespace, results, skipped, started)
    return 0 if results.are_equal and all(verdict.passed for verdict in results.verdicts) else 1


def _run_networks(
    namespace: argparse.Namespace, scenarios: Sequence[Scenario], started: float, results: Results
) -> None:
    """Run the scenarios on one network after the other; a network that ends by an error ends none of the others."""
    settings = parse(["--data-dir", str(namespace.data_dir)] if namespace.data_dir else [])
    settings = dataclasses.replace(settings, seed=namespace.seed, json=namespace.json)
    with data_directory(settings.data_dir) as root:
        for needs, group in by_network(scenarios):
            folder = root / "-".join(needs) if needs else root
            folder.mkdir(exist_ok=True)
            clear(folder)
            seconds = 60 * namespace.minutes * _seconds(group) / _seconds(scenarios) if namespace.minutes else None
            network = with_scenarios(settings, _order(group, namespace.seed, seconds))
            network = dataclasses.replace(network, scenario_seconds=seconds)
            results.are_compared.append(None)
            try:
                view = choose(namespace.json, None)
                result = run(network, folder, view, started, results.verdicts.append)
            except FAILURES as error:
                place = f"the network with {', '.join(needs)}" if needs else "the network"
                print(f"error: {place} ended: {failure_text(error)}", file=sys.stderr)
            else:
                results.are_compared[-1] = result.output_roots_equal


def by_network(scenarios: Sequence[Scenario]) -> list[tuple[tuple[str, ...], tuple[Scenario, ...]]]:
    """Return the scenarios that can share a network, with what it needs."""
    result: dict[tuple[str, ...], list[Scenario]] = {}
    for scenario in scenarios:
        result.setdefault(tuple(sorted(need.value for need in scenario.needs)), []).append(scenario)
    return [(needs, tuple(group)) for needs, group in sorted(result.items())]


def _seconds(scenarios: Sequence[Scenario]) -> float:
    return sum(scenario.seconds for scenario in scenarios)


def _show(namespace: argparse.Namespace, results: Results, skipped: Mapping[str, str], started: float) -> None:
    if namespace.json:
        print(json.dumps(_as_json(results, skipped, namespace.seed, time.monotonic() - started)), flush=True)
        return
    _print(results.verdicts, namespace.seed)
    for name, reason in skipped.items():
        print(f"skipped {name}: {reason}")
    print(f"output roots {roots_text(results.are_equal)}")


def _as_json(results: Results, skipped: Mapping[str, str], seed: int, seconds: float) -> dict[str, Any]:
    place = {"commit": commit_of_checkout(), "machine": machine_text(), "load": round(os.getloadavg()[2], 2)}
    result = {"seed": seed, "equal": results.are_equal, "minutes": round(seconds / 60, 1), **place, "skipped": skipped}
    return {**result, "scenarios": [*map(summary, results.verdicts)]}


def _table(namespace: argparse.Namespace) -> int:
    runs = []
    for path in namespace.files:
        try:
            runs += [parse_run(line) for line in path.read_bytes().splitlines() if line.strip()]
        except ResultsError as error:
            print(f"error: {path}: {error}", file=sys.stderr)
            return 1
    lines = list(results_table(runs))
    print("\n".join(lines))
    if namespace.page is not None:
        namespace.page.write_text(with_table(namespace.page.read_text(), TABLE, lines))
    return 0


def _print(verdicts: Sequence[Verdict], seed: int) -> None:
    for line in table(verdicts):
        print(line)
    for verdict in verdicts:
        if not verdict.passed:
            print(f"replay: tools/chaos run --seed {seed} --only {verdict.scenario.name}")


def _order(scenarios: Sequence[Scenario], seed: int, seconds: float | None) -> tuple[Scenario, ...]:
    """Return the scenarios in random order.

    With `seconds` again and again, more than fit into that time, unless they need what happens once."""
    chance = random.Random(seed)
    is_repeated = seconds is not None and not any(Need.FORK in scenario.needs for scenario in scenarios)
    rounds = 1 + int(seconds / _seconds(scenarios)) if seconds is not None and is_repeated else 1
    return tuple(item for _ in range(rounds) for item in chance.sample(scenarios, len(scenarios)))


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
    add_commands(commands)
    return parser


_COMMANDS = {"list": _list, "run": _run, "table": _table, "soak": soak_command, "report": report_command}


if __name__ == "__main__":
    sys.exit(main())
