"""`rollup-node witness`: every preimage that deriving a range reads on L1, in kona-host's directory store."""

import os
import shutil
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from rollup_node.node.options.errors import shown
from rollup_node.node.options.given_files import read_chain_file
from rollup_node.node.system.exit_codes import PROGRAM, SetupError, version
from rollup_node.node.system.process_control import kept_stop_signals
from rollup_node.stages.protocol.texts import escaped_line
from rollup_node.tools.commands import witness_range
from rollup_node.tools.commands.common import HELP_EPILOG, ParsedCommand, check_batches_on_l1, check_endpoints, parse
from rollup_node.tools.commands.flags import FlagParser, block_number, check_l2_source, positive
from rollup_node.tools.history.runner import executor
from rollup_node.tools.witness.assembly import Range, assemble
from rollup_node.tools.witness.manifest import Manifest
from rollup_node.tools.witness.packs import PackFolder
from rollup_node.tools.witness.preimages import WitnessError
from rollup_node.tools.witness.range_task import WitnessTask, plan_ranges, run_witness_range

DESCRIPTION = """Derives L2 blocks N+1 to M from L1, block N being the safe head, and writes every preimage that this
reads on L1 into a folder: headers, transactions and receipts as trie nodes, and blobs with their proofs, with the boot
inputs of kona-client, in the directory format of kona-host. `replay --witness FOLDER` derives the blocks from it."""
DEFAULT_SIZE = 10_000
MAX_WORKERS = 1_024


def main(arguments: Sequence[str]) -> int:
    """Run the command; 0 when the witness is complete."""
    if arguments and arguments[0] == "range":
        return witness_range.main(arguments[1:])
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
                code = witness_range.derive_range(command, *ranges[0], packs)
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
    parser.add_argument("--from-l2", type=block_number, required=True, metavar="N", help="the safe head to begin with")
    parser.add_argument("--to-l2", type=block_number, required=True, metavar="M", help="the last block to derive")
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
    if flags.to_l2 <= flags.from_l2:
        raise SetupError(f"--to-l2 {flags.to_l2} is not after --from-l2 {flags.from_l2}")
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
    source: tuple[str, ...] = (
        ("--l2", flags.l2) if flags.l2 is not None else ("--l2-blocks", os.path.abspath(flags.l2_blocks))
    )
    if flags.execution:
        source += ("--execution",)
    if flags.timeout is not None:
        source += ("--timeout", f"{flags.timeout:g}s")
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
