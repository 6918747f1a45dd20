"""`rollup-node witness`: every preimage that deriving a range reads on L1, in kona-host's directory store."""

import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec

from rollup_node.node.options.errors import shown
from rollup_node.node.options.given_files import read_chain_file
from rollup_node.node.setup.plan import derivation_config
from rollup_node.node.system.exit_codes import PROGRAM, ExitCode, SetupError, version
from rollup_node.node.system.process_control import STOP_SIGNALS, signal_when_parent_ends
from rollup_node.node.system.process_table import ProcessSpec
from rollup_node.node.system.resources import usable_cores
from rollup_node.stages.protocol.texts import escaped_line
from rollup_node.tools.commands.common import (
    HELP_EPILOG,
    Outputs,
    ParsedCommand,
    check_batches_on_l1,
    check_endpoints,
    last_process,
    parse,
    run,
)
from rollup_node.tools.commands.flags import FlagParser, check_l2_range, check_l2_source, positive, source_words
from rollup_node.tools.commands.replay import replay_config
from rollup_node.tools.history.range_task import RangeFailed, run_processes
from rollup_node.tools.history.runner import executor
from rollup_node.tools.inspect.row_formats import RowFormat
from rollup_node.tools.witness.assembly import Range, assemble
from rollup_node.tools.witness.manifest import Manifest
from rollup_node.tools.witness.packs import PackFolder, RangeResult, base_name, range_name
from rollup_node.tools.witness.preimages import WitnessError
from rollup_node.tools.witness.range_stage import WitnessRangeConfig
from rollup_node.tools.witness.recording_stage import RecordingConfig

MAX_RANGES = 100_000


@contextmanager
def kept_stop_signals(
    handler: Callable[[int, FrameType | None], Any] | signal.Handlers | None = None,
) -> Iterator[None]:
    """Restore at the end what takes the signals that end the process; until then that is `handler`, if there is one.

    Those that the process ignores it goes on to ignore."""
    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    try:
        for number, own in before.items():
            if handler is not None and own is not signal.SIG_IGN:
                signal.signal(number, handler)
        yield
    finally:
        for number, own in before.items():
            signal.signal(number, own)


class WitnessTask(msgspec.Struct, frozen=True):
    """L2 blocks `first` + 1 to `last`.

    `packs` is the folder that all workers share, `arguments` are the options that are the same for all ranges."""

    packs: str
    first: int
    last: int
    version: str
    arguments: tuple[str, ...]


def plan_ranges(first: int, last: int, size: int) -> list[tuple[int, int]]:
    """Return the ranges of `size` blocks from safe head `first` to `last`. Raises ValueError for too many."""
    starts = range(first, last, size)
    if len(starts) > MAX_RANGES:
        raise ValueError(f"{len(starts)} ranges are more than {MAX_RANGES}: give a larger size")
    return [(start, min(start + size, last)) for start in starts]


def run_witness_range(task: WitnessTask) -> RangeResult:
    """Derive a range and keep its packs; one that is complete is not derived again. Raises RangeFailed."""
    if task.version != version():
        raise RangeFailed(f"the worker has version {version()}, the run {task.version}: install the same version")
    packs, name = PackFolder(Path(task.packs)), range_name(task.first, task.last)
    if not packs.path.is_dir():
        raise RangeFailed(f"{os.uname().nodename} does not see the folder {task.packs}: all workers need it")
    what = f"the range {task.first} to {task.last}"
    try:
        if not packs.has(name):
            flags = ["--from-l2", str(task.first), "--to-l2", str(task.last), "--packs", task.packs]
            flags += ["--parent", str(os.getpid())]
            command = [sys.executable, "-m", "rollup_node", "witness", "range", *flags, *task.arguments]
            run_processes(lambda: command, packs.path / name)
        return packs.get(name, RangeResult, what)
    except OSError as error:
        raise RangeFailed(f"its packs cannot be read: {error.strerror}") from None
    except WitnessError as error:
        raise RangeFailed(str(error)) from None


RANGE_DESCRIPTION = """Derives one range of L2 blocks and keeps what it reads on L1. It is what `witness` starts for
each range."""


def derive_in_process(arguments: Sequence[str]) -> int:
    """Run the command; 0 when the range is derived and all that it reads is kept."""
    parser = FlagParser("witness range", RANGE_DESCRIPTION, HELP_EPILOG)
    parser.add_l2_range()
    parser.add_argument("--packs", required=True, metavar="FOLDER", help="an existing folder for what is read")
    parser.add_argument("--parent", type=int, metavar="PID", help="the process with which this one ends")
    parser.add_argument("--execution", action="store_true", help="also keep what executing the blocks reads")
    parser.add_l2_source()
    parser.add_timeout()
    command = parse(parser, arguments)
    flags = command.flags
    check_l2_source(flags)
    signal_when_parent_ends(signal.SIGTERM)
    # It may have ended before, while this one was starting.
    if flags.parent is not None and os.getppid() != flags.parent:
        raise SetupError(f"--parent: process {flags.parent}, which started this one, has ended")
    return derive_range(command, flags.from_l2, flags.to_l2, PackFolder(Path(flags.packs)))


def derive_range(command: ParsedCommand, first: int, last: int, packs: PackFolder) -> int:
    """Derive L2 blocks `first` + 1 to `last` and store what is read; 0 when that is complete.

    A core has a compute worker for itself, unless `workers` says otherwise: they also write the files."""
    outputs, folder = Outputs.open(), str(packs.path)
    replay = replay_config(command, outputs, first, last, RowFormat.JSON)
    stage = WitnessRangeConfig(replay, folder, command.flags.execution)
    derivation = derivation_config(command.values, command.chain, ahead=0)
    specs = [
        ProcessSpec("derivation", "rollup_node.stages.derivation.process.stage:build", derivation),
        last_process("engine", "witness.range_stage", stage, outputs),
    ]
    build, config = "rollup_node.tools.witness.recording_stage:build", RecordingConfig(folder, base_name(first, last))
    workers = command.values["workers"] or usable_cores()
    # The supervisor takes the signals that end a command, and leaves them to nobody.
    with kept_stop_signals():
        code = run(command, specs, compute=lambda spec: replace(spec, build=build, config=config, copies=workers))
    # The disk refuses to take it.
    return ExitCode.SETUP if code == ExitCode.CRITICAL else code


DESCRIPTION = """Derives L2 blocks N+1 to M from L1, block N being the safe head, and writes every preimage that this
reads on L1 into a folder: headers, transactions and receipts as trie nodes, and blobs with their proofs, with the boot
inputs of kona-client, in the directory format of kona-host. `replay --witness FOLDER` derives the blocks from it."""
DEFAULT_SIZE = 10_000
MAX_WORKERS = 1_024


def main(arguments: Sequence[str]) -> int:
    """Run the command; 0 when the witness is complete."""
    if arguments and arguments[0] == "range":
        return derive_in_process(arguments[1:])
    parser = _parser()
    _, rest = parser.parse_known_args(list(arguments))
    command = parse(parser, arguments, derives=True)
    flags = command.flags
    ranges = _checked_ranges(command)
    target = Path(flags.out).absolute()
    # The folder has the name of the process, so that an older one of a killed run is in nobody's way.
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    packs = PackFolder(partial / "packs")
    try:
        with kept_stop_signals(signal.default_int_handler):
            packs.create()
            if len(ranges) == 1:
                code = derive_range(command, *ranges[0], packs)
                if code:
                    return code
            else:
                check_endpoints(command)
                _derive_ranges(command, ranges, packs, tuple(rest))
            manifest = assemble(packs, ranges, command.chain, _l1_config(command))
            if target.exists():
                raise SetupError(f"--out: {shown(str(target))} has appeared meanwhile: name another folder")
            os.rename(packs.store.path, target)
    except WitnessError as error:
        raise SetupError(str(error)) from None
    except OSError as error:
        raise SetupError(f"--out: cannot write {shown(str(target))}: {error.strerror}") from None
    finally:
        # A second Ctrl-C would leave a part of it.
        with kept_stop_signals(signal.SIG_IGN):
            shutil.rmtree(partial, ignore_errors=True)
    _report(manifest, target)
    return 0


def _parser() -> FlagParser:
    parser = FlagParser("witness", DESCRIPTION, HELP_EPILOG)
    parser.add_l2_range()
    parser.add_argument("--out", required=True, metavar="FOLDER", help="a new folder for the witness")
    parser.add_l2_source()
    text = "also what executing the blocks reads, from an L2 source that serves debug_executePayload"
    parser.add_argument("--execution", action="store_true", help=text)
    size = f"L2 blocks that a worker derives at a time; default {DEFAULT_SIZE}"
    parser.add_argument("--range-size", type=positive(10_000_000), default=DEFAULT_SIZE, metavar="B", help=size)
    parser.add_argument("--workers", type=positive(MAX_WORKERS), default=1, metavar="W", help="ranges at a time")
    scheduler = "run on this Dask cluster, whose machines all see the folder, such as tcp://10.0.0.1:8786"
    parser.add_argument("--scheduler", metavar="ADDRESS", help=scheduler)
    parser.add_timeout()
    return parser


def _checked_ranges(command: ParsedCommand) -> list[Range]:
    """Return the ranges of L2 blocks. Raises SetupError for flags that are wrong."""
    flags, genesis = command.flags, command.chain.config.genesis.l2.number
    if flags.from_l2 < genesis:
        raise SetupError(f"--from-l2 {flags.from_l2} is before the chain's genesis, block {genesis}")
    check_l2_range(flags)
    check_l2_source(flags)
    check_batches_on_l1(command)
    if flags.execution and flags.l2 is None:
        raise SetupError("--execution needs an engine: give --l2 URL")
    if command.values["l1.trustrpc"]:
        raise SetupError("--l1.trustrpc proves nothing: leave it out for a witness")
    if flags.scheduler is not None and flags.workers > 1:
        raise SetupError("--workers is for a cluster on this machine: leave it out with --scheduler")
    target = Path(flags.out).absolute()
    if not flags.out or os.path.lexists(target):
        raise SetupError(f"--out: {shown(flags.out)} exists: name a new folder")
    try:
        return plan_ranges(flags.from_l2, flags.to_l2, flags.range_size)
    except ValueError as error:
        raise SetupError(f"--range-size: {error}") from None


def _derive_ranges(command: ParsedCommand, ranges: Sequence[Range], packs: PackFolder, rest: tuple[str, ...]) -> None:
    """Derive the ranges by workers. Raises SetupError for the first that fails."""
    flags = command.flags
    source = (*source_words(flags), *(("--execution",) if flags.execution else ()))
    tasks = [WitnessTask(str(packs.path), first, last, version(), (*source, *rest)) for first, last in ranges]
    with executor(flags.workers, flags.scheduler) as runner:
        if runner.workers > 1:
            # Each range has one worker for its tasks.
            tasks = [WitnessTask(t.packs, t.first, t.last, t.version, (*t.arguments, "--workers", "1")) for t in tasks]
        outcomes = runner.run(tasks, run_witness_range)
        for outcome in outcomes:
            task = outcome.task
            if outcome.row is None:
                outcomes.close()
                raise SetupError(f"L2 blocks {task.first + 1} to {task.last}: {escaped_line(outcome.error)}")
            blocks = outcome.row.head.number - outcome.row.base.number + 1
            text = f"L2 blocks {task.first + 1} to {task.last} are derived from {blocks} L1 blocks"
            print(f"{PROGRAM}: {text}", file=sys.stderr)


def _l1_config(command: ParsedCommand) -> bytes | None:
    path = command.values["rollup.l1-chain-config"]
    return read_chain_file(path, "failed to read chain spec") if path else None


def _report(manifest: Manifest, target: Path) -> None:
    print(f"{manifest.preimages} preimages of L2 blocks {manifest.safe_head.number + 1} to {manifest.last} in {target}")
    print(f"L1 blocks {manifest.l1_base.number} to {manifest.l1_head.number}, L1 head {manifest.l1_head.hash}")
    for name, root in (("agreed", manifest.agreed), ("claimed", manifest.claimed)):
        missing = "unknown: the L2 source cannot tell it, and kona-client needs it"
        print(f"{name} output root {root or missing}")
    if not manifest.executes:
        print("what executing the blocks reads is not in it: kona-client needs it (--execution)")
