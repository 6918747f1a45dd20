"""`rollup-node history run` and `plan`: derives the past of a chain in ranges of L1 blocks."""

import argparse
import asyncio
import importlib.util
import os
import re
import signal
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from rollup_node.node.options.errors import shown
from rollup_node.node.setup.plan import l1_config
from rollup_node.node.system.exit_codes import PROGRAM, SetupError, version
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.texts import duration, escaped_line
from rollup_node.tools.commands.common import (
    HELP_EPILOG,
    ParsedCommand,
    address,
    check_batches_on_l1,
    check_endpoints,
    parse,
)
from rollup_node.tools.commands.flags import (
    FlagParser,
    block_number,
    check_l1_range,
    check_l2_source,
    positive,
    source_words,
)
from rollup_node.tools.history.folder import HistoryFolder, RunFile, history_folder
from rollup_node.tools.history.l1_view import L1View, l1_view
from rollup_node.tools.history.manifest import (
    DEFAULT_SIZE,
    NO_SOURCE,
    TABLES_VERSION,
    L1Range,
    ManifestRow,
    RunConfig,
    default_warmup,
    genesis_resume,
    plan_ranges,
    rollup_digest,
)
from rollup_node.tools.history.range_task import RangeTask
from rollup_node.tools.history.runner import INSTALL, RESOURCE, HistoryRun, Outcome, RunReport, executor, with_last
from rollup_node.tools.history.start_stage import caveats, progress

RUN = """Derives L1 blocks A to B in ranges, each with a warm-up before it, and writes what was read and derived of them
into tables below a folder. Ranges that are complete there are skipped: run the same command again after an
interruption. A range whose start is not the end of the one before is run again from that end."""
PLAN = """Shows the ranges of a history, the L1 requests that they take, and the hours on 1, 16 and 256 workers by the
rate of the ranges that are complete in --out. Takes the flags of `history run`; nothing is written."""
MAX_WORKERS = 1_024
WORKERS = (1, 16, 256)
REQUESTS = 2
"""L1 requests of a block: the block with its transactions, and its receipts."""
BAR = 24
_RESOURCE = re.compile(r"[A-Za-z0-9_-]{1,40}")


class Plan(NamedTuple):
    """A command line that is checked against L1."""

    command: ParsedCommand
    folder: HistoryFolder
    run: RunFile
    arguments: tuple[str, ...]
    floor: int


def run(arguments: Sequence[str]) -> int:
    """Run `history run`; 0 when all ranges are complete and all seams close."""
    plan = _plan("run", RUN, arguments)
    flags = plan.command.flags
    with plan.folder.locked(), executor(flags.workers, flags.scheduler, flags.resource) as runner:
        run_file = with_last(plan.run, plan.folder.run_file())
        plan.folder.open(run_file)
        more: tuple[str, ...] = ("--workers", "1") if runner.workers > 1 else ()
        if flags.rate is not None:
            most = plan.command.values["l1.rpc-max-batch-size"]
            more += rate_options(flags.rate, runner.workers, most)
        rows, lost = plan.folder.usable_manifests()
        for line in lost:
            print(f"{PROGRAM}: {line}: its range is run again", file=sys.stderr)
        done = progress(run_file.plan, rows, run_file.config.digest).done
        genesis = genesis_resume(plan.command.chain.config) if run_file.config.is_assumed else None
        bar = ProgressBar(len(run_file.plan), len(done))
        history = HistoryRun(
            plan.folder, run_file, runner, (*plan.arguments, *more), version(), plan.floor, bar.show, genesis
        )
        try:
            report = history.run()
        except KeyboardInterrupt:
            # What ends now takes seconds; a second one would leave parts of it.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            start = "\n" if sys.stderr.isatty() else ""
            text = "interrupted: the same command continues with the ranges that are missing"
            print(f"{start}{PROGRAM}: {text}", file=sys.stderr)
            raise
    return _report(run_file, report)


def plan(arguments: Sequence[str]) -> int:
    """Run `history plan`."""
    plan = _plan("plan", PLAN, arguments)
    run_file, ranges = plan.run, plan.run.plan
    known = plan.folder.run_file()
    rows = plan.folder.usable_manifests()[0] if known is not None and known.config == run_file.config else {}
    done, missing = progress(ranges, rows, run_file.config.digest)
    blocks = sum(item.blocks for item in missing)
    read = _blocks_read(run_file.config, missing)
    print(f"{run_file.chain}: L1 blocks {run_file.config.first} to {run_file.last}")
    print(f"{len(ranges)} ranges of {run_file.config.size} L1 blocks, {len(done)} of them complete")
    print(f"to read: {blocks} L1 blocks, and {read - blocks} of warm-ups at most")
    print(f"L1 requests: about {read * REQUESTS}, and one for the blobs of each block that has some")
    if run_file.config.in_order:
        print("one worker: each range starts from the end of the one before")
    for line in caveats(run_file.config):
        print(line)
    for line in hours(run_file.config, done, missing):
        print(line)
    return 0


def hours(config: RunConfig, done: Mapping[L1Range, ManifestRow], missing: Sequence[L1Range]) -> list[str]:
    """Return the hours that the missing ranges take, and the requests a second.

    By the rate at which L1 was read for those that are done, warm-ups included."""
    seconds_done = sum(row.seconds for row in done.values())
    if not seconds_done:
        return ["hours: unknown until a range is complete; run one with --to-l1 near --from-l1 first"]
    read = _blocks_read(config, missing)
    one = read * seconds_done / _blocks_read(config, done)
    result = []
    for workers in (1,) if config.in_order else WORKERS:
        seconds = one / min(workers, max(1, len(missing)))
        name = "1 worker" if workers == 1 else f"{workers} workers"
        result.append(f"{name}: {seconds / 3600:.1f} hours, {read * REQUESTS / max(seconds, 1e-9):.0f} requests/s")
    return result


def _blocks_read(config: RunConfig, ranges: Collection[L1Range]) -> int:
    """Return the L1 blocks that these ranges read at most.

    The warm-up begins at a safe head, whose origin is as much before it."""
    return sum(range_.blocks for range_ in ranges) + 2 * config.warmup * len(ranges)


# --- the command line ----------------------------------------------------------------------------------------------


def _parser(name: str, description: str) -> FlagParser:
    parser = FlagParser(f"history {name}", description, HELP_EPILOG)
    parser.add_l1_range()
    parser.add_argument("--out", required=True, metavar="FOLDER", help="where the tables go; all workers need it")
    parser.add_l2_source()
    parser.add_argument(
        "--safe-head", type=block_number, metavar="N", help="the L2 block that the first range starts with"
    )
    batcher = "without an L2 source: the batcher at the first block; default is that of the chain's genesis"
    parser.add_argument("--batcher", type=address, metavar="ADDRESS", help=batcher)
    parser.add_argument(
        "--no-verdicts", action="store_true", help="without an L2 source: read from genesis, too, and derive nothing"
    )
    size = f"L1 blocks of a range; default {DEFAULT_SIZE}"
    parser.add_argument("--range-size", type=positive(10_000_000), default=DEFAULT_SIZE, metavar="N", help=size)
    warmup = "L1 blocks before a range in which its start is found; default is a channel timeout"
    parser.add_argument("--warmup", type=positive(100_000), metavar="N", help=warmup)
    parser.add_argument("--jsonl", action="store_true", help="JSON lines in place of Parquet, for small ranges")
    parser.add_argument("--workers", type=positive(MAX_WORKERS), default=1, metavar="N", help="ranges at a time")
    parser.add_argument("--scheduler", metavar="ADDRESS", help="run on this Dask cluster, such as tcp://10.0.0.1:8786")
    resource = f"the Dask resource of which each range takes one, where workers declare it; default {RESOURCE}"
    parser.add_argument("--resource", type=_resource, default=RESOURCE, metavar="NAME", help=resource)
    parser.add_argument("--rate", type=positive(1_000_000), metavar="R", help="L1 requests a second of all workers")
    archive = "L1 data and blobs of earlier runs and other machines: read before any endpoint is asked, and added to"
    parser.add_argument("--archive", metavar="FOLDER", help=archive)
    parser.add_timeout()
    return parser


def _resource(text: str) -> str:
    if not _RESOURCE.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text[:80]!r} is not a name of letters, digits, - and _")
    return text


def rate_options(rate: int, ranges: int, most: int) -> tuple[str, ...]:
    """Return the share of each of so many ranges at a time in a rate, as options of the node.

    A process that starts may send a batch at once: batches have no more requests than the share of a second, and at
    most `most`."""
    share = rate / ranges
    batch = max(1, min(int(share), most))
    return ("--l1.rpc-rate-limit", f"{share:g}", "--l1.rpc-max-batch-size", str(batch))


def _plan(name: str, description: str, arguments: Sequence[str]) -> Plan:
    """Read and check a command line. Raises SetupError for anything that is wrong, with nothing written."""
    parser = _parser(name, description)
    _, rest = parser.parse_known_args(list(arguments))
    command = parse(parser, arguments, derives=True)
    flags, config = command.flags, command.chain.config
    check_l1_range(flags)
    if flags.from_l1 <= config.genesis.l1.number:
        raise SetupError(f"--from-l1 {flags.from_l1} is not after the chain's L1 genesis, {config.genesis.l1.number}")
    has_source = flags.l2 is not None or flags.l2_blocks is not None
    in_order = _check_source(flags, config.genesis.l1.number)
    if flags.scheduler is not None and flags.workers > 1:
        raise SetupError("--workers is for a cluster on this machine: leave it out with --scheduler")
    check_batches_on_l1(command)
    if not flags.jsonl and importlib.util.find_spec("pyarrow") is None:
        raise SetupError(f"Parquet files need the package pyarrow: {INSTALL}, or give --jsonl")
    folder = history_folder(flags.out)
    folder.run_file()
    archive = _archive_folder(flags.archive, name == "run")
    check_endpoints(command)
    l1 = l1_config(command.values, command.chain, runtime_config=False)
    view = asyncio.run(l1_view(l1, flags.from_l1, archive))
    if flags.to_l1 > view.head:
        raise SetupError(f"--to-l1 {flags.to_l1} is beyond L1's head, {view.head}")
    warmup = flags.warmup or default_warmup(config, view.time)
    run_config = RunConfig(
        version=version(),
        tables=TABLES_VERSION,
        rollup=rollup_digest(config),
        first=flags.from_l1,
        size=flags.range_size,
        warmup=warmup,
        form="jsonl" if flags.jsonl else "parquet",
        source=NO_SOURCE if not has_source else "engine" if flags.l2 is not None else "file",
        in_order=in_order,
        safe_head=flags.safe_head,
        batcher=None if flags.batcher is None else to_hex(flags.batcher),
    )
    try:
        plan_ranges(flags.from_l1, flags.to_l1, flags.range_size)
    except ValueError as error:
        raise SetupError(f"--range-size: {error}") from None
    run_file = RunFile(run_config, command.chain.name, flags.to_l1)
    known = folder.run_file()
    if known is not None and known.config != run_config:
        folder.open(run_file)
    floor = max(config.genesis.l1.number, flags.from_l1 - warmup)
    arguments = (*source_words(flags), *_archive(archive, view, name == "run"), *rest)
    return Plan(command, folder, run_file, arguments, floor)


def _check_source(flags: argparse.Namespace, genesis: int) -> bool:
    """Whether ranges run in order.

    Those with a file of L2 blocks, and those that are derived without an L2 source from the L1 block after `genesis`
    on. Raises SetupError for flags that do not fit to the source."""
    has_source = flags.l2 is not None or flags.l2_blocks is not None
    is_derived = has_source or (flags.from_l1 == genesis + 1 and not flags.no_verdicts)
    if has_source:
        check_l2_source(flags)
    elif flags.safe_head is not None:
        raise SetupError("--safe-head needs an L2 source: give --l2 URL or --l2-blocks FILE")
    if has_source and flags.no_verdicts:
        raise SetupError("--no-verdicts is for a history without an L2 source: leave it out")
    if is_derived and flags.batcher is not None:
        raise SetupError("--batcher is for a history without verdicts: leave it out")
    if flags.l2_blocks is not None and flags.safe_head is None:
        raise SetupError("--l2-blocks needs the block to begin with: --safe-head N")
    is_parallel = flags.workers > 1 or flags.scheduler is not None
    if flags.l2_blocks is not None and is_parallel:
        raise SetupError("--l2-blocks runs ranges in order, on one worker: leave out --workers and --scheduler")
    if is_derived and not has_source and is_parallel:
        raise SetupError(
            "without an L2 source ranges from genesis run in order, on one worker: leave out --workers and --scheduler,"
            " or give --no-verdicts"
        )
    return flags.l2_blocks is not None or (is_derived and not has_source)


def _archive_folder(text: str | None, writes: bool) -> str | None:
    """Return the folder of --archive, which is created if the command `writes`. Raises SetupError."""
    if text is None:
        return None
    if "://" in text:
        raise SetupError(f"--archive: {shown(text)} is a URL, not a folder: mount the storage and name that")
    path = os.path.abspath(text)
    try:
        if writes:
            os.makedirs(path, exist_ok=True)
        elif os.path.exists(path):
            os.listdir(path)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise SetupError(f"--archive: {shown(path)} is not a folder that can be used: {reason}") from None
    return path


def _archive(path: str | None, view: L1View, writes: bool) -> tuple[str, ...]:
    """Return the flags of ranges for the archive."""
    if path is None:
        return ()
    if writes and view.finalized < 0:
        text = "--archive: L1 does not say which blocks are final, so that no L1 block is kept there"
        print(f"{PROGRAM}: warning: {text}", file=sys.stderr)
    return ("--archive", path, "--archive-last", str(view.finalized))


# --- output --------------------------------------------------------------------------------------------------------


class ProgressBar:
    """Progress on standard error: a bar with the time left on a terminal, else a line for each range."""

    def __init__(self, total: int, done: int) -> None:
        self._total, self._done, self._ran = total, done, 0
        self._began = time.monotonic()

    def show(self, outcome: Outcome[RangeTask, ManifestRow]) -> None:
        """Show that a range has ended."""
        task, row = outcome.task, outcome.row
        name = f"L1 blocks {task.first} to {task.last}"
        self._ran += 1
        self._done = min(self._total, self._done + (row is not None and task.repaired is None))
        left = (self._total - self._done) * (time.monotonic() - self._began) / self._ran
        if row is None:
            self._line(f"{name}: FAILED: {escaped_line(outcome.error)}")
        elif not sys.stderr.isatty():
            self._line(f"{name}: {row.l2_blocks} L2 blocks in {row.seconds:.1f} s, {self._done}/{self._total}")
        if row is not None and row.warnings:
            self._line(f"{name}: warned of {', '.join(row.warnings)}: {PROGRAM} explain {row.warnings[0]}")
        if sys.stderr.isatty():
            filled = BAR * self._done // self._total
            bar = "#" * filled + "." * (BAR - filled)
            print(
                f"\r[{bar}] {self._done}/{self._total} ranges, {duration(left)} left ",
                end="",
                file=sys.stderr,
                flush=True,
            )

    def _line(self, text: str) -> None:
        print(f"\r{PROGRAM}: {text}" if sys.stderr.isatty() else f"{PROGRAM}: {text}", file=sys.stderr)


def _report(run_file: RunFile, report: RunReport) -> int:
    """Say what became of a run; its exit code."""
    if sys.stderr.isatty():
        print(file=sys.stderr)
    for line in (*report.repaired, *report.open_seams):
        print(f"{PROGRAM}: {line}", file=sys.stderr)
    missing = len(run_file.plan) - report.derived - report.skipped
    for line in caveats(run_file.config):
        print(f"{PROGRAM}: {line}", file=sys.stderr)
    if report.given_up:
        print(f"{PROGRAM}: ended: {escaped_line(report.given_up)}", file=sys.stderr)
    text = f"{report.derived} ranges derived, {report.skipped} were complete, {missing} missing"
    again = ": the same command continues with those" if missing else ""
    print(f"{PROGRAM}: {text}{again}", file=sys.stderr)
    return 1 if missing or report.open_seams or report.failed else 0
