"""`python -m rollup_node.tools.fuzz`: feeds mutated inputs to the parsers of foreign bytes, and keeps what fails.

`list` names the targets. `run` feeds a target, or all, for some seconds each or with a number of inputs each; the seed
makes it repeatable. `replay` runs files through a target, and shows the traceback of a failure. `seeds` chooses the
inputs that the repository keeps, by the lines of code that they reach. `table` prints the figures of reports.
`atheris` runs a target with the coverage-guided fuzzer of that name, where it is installed."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from rollup_node.stages.io.log.logger import Level, set_level
from rollup_node.tools.fuzz.inputs import FOLDER, CorpusError, chosen_seeds, read_corpus, write_corpus
from rollup_node.tools.fuzz.runner import Figures, Runner, markdown_table, replayed
from rollup_node.tools.fuzz.targets.table import TARGETS
from rollup_node.tools.importers.generated_sections import rewrite

ALL = "all"


def main(argv: Sequence[str] | None = None) -> int:
    """Return 0 when no input fails, 1 when one does, 2 for wrong arguments."""
    parser = argparse.ArgumentParser(
        prog="python -m rollup_node.tools.fuzz", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list")
    running = commands.add_parser("run")
    running.add_argument("--target", choices=(ALL, *TARGETS), default=ALL)
    running.add_argument("--seconds", type=float, help="of each target")
    running.add_argument("--inputs", type=int, help="of each target")
    running.add_argument("--seed", type=int, default=0)
    running.add_argument("--corpus", type=Path, default=FOLDER)
    running.add_argument("--failures", type=Path, default=Path("."), help="folder for failing inputs")
    running.add_argument("--report", type=Path, help="file to which the figures are appended as lines of JSON")
    replaying = commands.add_parser("replay")
    replaying.add_argument("--target", choices=tuple(TARGETS), required=True)
    replaying.add_argument("files", type=Path, nargs="+")
    choosing = commands.add_parser("seeds")
    choosing.add_argument("--target", choices=(ALL, *TARGETS), default=ALL)
    choosing.add_argument("--inputs", type=int, default=3000, help="that are tried for each target")
    choosing.add_argument("--corpus", type=Path, default=FOLDER)
    tabling = commands.add_parser("table")
    tabling.add_argument("reports", type=Path, nargs="+")
    tabling.add_argument("--page", type=Path, help="a document whose section `fuzz` becomes the table")
    guided = commands.add_parser("atheris")
    guided.add_argument("--target", choices=tuple(TARGETS), required=True)
    value, rest = parser.parse_known_args(sys.argv[1:] if argv is None else argv)
    if rest and value.command != "atheris":
        parser.error(f"unknown arguments: {' '.join(rest)}")
    set_level(Level.SILENT)
    try:
        return _COMMANDS[value.command](value, rest)
    except (CorpusError, OSError, ValueError) as error:
        print(f"fuzz: {error}", file=sys.stderr)
        return 2


def _list(namespace: argparse.Namespace, rest: Sequence[str]) -> int:
    for name, target in TARGETS.items():
        print(f"{name:22} {target.sender}")
    return 0


def _run(namespace: argparse.Namespace, rest: Sequence[str]) -> int:
    seconds = 60.0 if namespace.seconds is None and namespace.inputs is None else namespace.seconds
    failed = False
    for name in _names(namespace):
        runner = Runner(name, TARGETS[name], namespace.failures)
        figures = runner.run(read_corpus(namespace.corpus, name), namespace.seed, seconds, namespace.inputs)
        failed |= bool(figures.findings)
        print(
            f"{name:22} {figures.inputs:9} inputs in {figures.seconds:6.1f} s, {len(figures.outcomes):4} outcomes,"
            f" slowest {figures.slowest_ms:6.1f} ms, {len(figures.findings)} failures"
            + (f", {figures.slow} slow" if figures.slow else ""),
            flush=True,
        )
        print("\n".join(figures.findings), end="", file=sys.stderr, flush=True)
        if namespace.report is not None:
            with namespace.report.open("ab") as report:
                report.write(msgspec.json.encode(figures) + b"\n")
    return int(failed)


def _replay(namespace: argparse.Namespace, rest: Sequence[str]) -> int:
    failed = False
    for path in namespace.files:
        outcome, trace = replayed(TARGETS[namespace.target], path.read_bytes())
        print(f"{path}: {outcome}")
        print(trace, end="", file=sys.stderr)
        failed |= bool(trace)
    return int(failed)


def _seeds(namespace: argparse.Namespace, rest: Sequence[str]) -> int:
    for name in _names(namespace):
        kept = read_corpus(namespace.corpus, name)
        chosen = chosen_seeds(name, TARGETS[name], kept, namespace.inputs)
        write_corpus(namespace.corpus, name, chosen)
        print(f"{name:22} {len(chosen)} inputs, {sum(map(len, chosen))} bytes", flush=True)
    return 0


def _table(namespace: argparse.Namespace, rest: Sequence[str]) -> int:
    lines = [line for path in namespace.reports for line in path.read_bytes().splitlines()]
    senders = {name: target.sender for name, target in TARGETS.items()}
    shown = markdown_table([msgspec.json.decode(line, type=Figures) for line in lines], senders)
    if namespace.page is None:
        print(shown)
    else:
        rewrite(namespace.page, {"fuzz": lambda: shown})
    return 0


def _atheris(namespace: argparse.Namespace, rest: Sequence[str]) -> int:
    try:
        import atheris
    except ImportError:
        print("fuzz: atheris is not installed: pip install atheris, or use `run`", file=sys.stderr)
        return 2
    target = TARGETS[namespace.target]

    def run(data: bytes) -> None:
        try:
            target.run(data)
        except target.errors:
            return

    atheris.instrument_all()
    atheris.Setup([sys.argv[0], *rest], run)
    atheris.Fuzz()
    return 0


def _names(namespace: argparse.Namespace) -> tuple[str, ...]:
    return tuple(TARGETS) if namespace.target == ALL else (namespace.target,)


_COMMANDS = {"list": _list, "run": _run, "replay": _replay, "seeds": _seeds, "table": _table, "atheris": _atheris}


if __name__ == "__main__":
    sys.exit(main())
