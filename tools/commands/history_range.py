"""`rollup-node history range`: derives one range of L1 blocks and writes its rows; `history run` starts it."""

import os
import signal
from collections.abc import Sequence
from pathlib import Path

import msgspec

from rollup_node.node.options.errors import shown
from rollup_node.node.options.given_files import regular_file
from rollup_node.node.setup.plan import derivation_config
from rollup_node.node.system.exit_codes import SetupError
from rollup_node.node.system.process_control import signal_when_parent_ends
from rollup_node.node.system.process_table import ProcessSpec
from rollup_node.stages.protocol.errors import DECODE_ERRORS
from rollup_node.tools.commands.common import HELP_EPILOG, Outputs, ParsedCommand, address, last_process, parse, run
from rollup_node.tools.commands.flags import FlagParser, block_number, check_l2_source
from rollup_node.tools.commands.replay import replay_config
from rollup_node.tools.history.archived_stages import ArchiveFolder
from rollup_node.tools.history.derivation_stage import RangeConfig
from rollup_node.tools.history.l1_view import read_blocks
from rollup_node.tools.history.manifest import Resume
from rollup_node.tools.history.reading_stage import ReadingConfig
from rollup_node.tools.history.start_stage import RangeStartConfig
from rollup_node.tools.inspect.listing_stage import ListingConfig
from rollup_node.tools.inspect.row_formats import RowFormat

DESCRIPTION = """Derives one range of L1 blocks and writes its rows as files of JSON lines. It is what `history run`
starts for each range."""
MAX_RESUME_BYTES = 1 << 20
UNBOUNDED = (1 << 63) - 1


def main(arguments: Sequence[str]) -> int:
    """Run the command; 0 when the rows of the whole range are written."""
    parser = FlagParser("history range", DESCRIPTION, HELP_EPILOG)
    parser.add_l1_range()
    parser.add_argument("--rows", required=True, metavar="FOLDER", help="an existing folder for the rows")
    parser.add_argument("--warmup", type=block_number, required=True, metavar="N", help="L1 blocks read before A")
    parser.add_argument("--floor", type=block_number, required=True, metavar="K", help="the first L1 block with a file")
    parser.add_argument("--parent", type=int, metavar="PID", help="the process with which this one ends")
    parser.add_argument("--safe-head", type=block_number, metavar="N", help="the safe head to begin with")
    parser.add_argument("--archive", metavar="FOLDER", help="L1 data and blobs that are read before any endpoint")
    parser.add_argument(
        "--archive-last", type=int, default=-1, metavar="N", help="the last L1 block that is kept there"
    )
    parser.add_argument("--resume", metavar="FILE", help="the state to derive from, without --l2")
    parser.add_argument("--overlap", metavar="FILE", help="the last blocks of the range before, without --l2")
    parser.add_argument("--batcher", type=address, metavar="ADDRESS", help="the batcher to begin with, without --l2")
    parser.add_l2_source()
    parser.add_timeout()
    command = parse(parser, arguments)
    flags = command.flags
    has_source = flags.l2 is not None or flags.l2_blocks is not None
    if has_source:
        check_l2_source(flags)
        if flags.safe_head is None and flags.l2 is None:
            raise SetupError("--l2-blocks needs the block to begin with: --safe-head N")
    # The processes end with the worker that started them, however it ends.
    signal_when_parent_ends(signal.SIGTERM)
    # It may have ended before, while this one was starting.
    if flags.parent is not None and os.getppid() != flags.parent:
        raise SetupError(f"--parent: process {flags.parent}, which started this one, has ended")
    return run(
        command,
        _deriving(command) if has_source or flags.resume is not None else _reading(command),
        inbox_hashes=True,
        archive=None if flags.archive is None else ArchiveFolder(flags.archive, flags.archive_last),
    )


def _deriving(command: ParsedCommand) -> list[ProcessSpec]:
    """Both end the node: derivation when the range is read, the engine stage when it cannot be."""
    flags = command.flags
    outputs = Outputs.open()
    replay = replay_config(command, outputs, 0, UNBOUNDED, RowFormat.JSON)
    resume = None if flags.resume is None else _resume(flags.resume)
    if flags.overlap is not None:
        _check_overlap(flags.overlap)
    start = RangeStartConfig(replay, flags.from_l1, flags.warmup, flags.safe_head, flags.floor, resume, flags.overlap)
    derivation = derivation_config(command.values, command.chain, ahead=0)
    rows = RangeConfig(derivation, flags.from_l1, flags.to_l1, flags.rows, resume is not None, flags.overlap)
    return [
        ProcessSpec("derivation", "rollup_node.tools.history.derivation_stage:build", rows, one_shot=True),
        last_process("engine", "history.start_stage", start, outputs),
    ]


def _resume(path: str) -> Resume:
    try:
        with regular_file(Path(path)) as file:
            return msgspec.json.decode(file.read(MAX_RESUME_BYTES), type=Resume)
    except (OSError, *DECODE_ERRORS) as error:
        raise SetupError(f"--resume: {shown(path)} is unreadable: {error}") from None


def _check_overlap(path: str) -> None:
    """Both processes read the file; an error is said once, before they start."""
    try:
        read_blocks(Path(path))
    except (OSError, ValueError) as error:
        raise SetupError(f"--overlap: {shown(path)} is unreadable: {error}") from None


def _reading(command: ParsedCommand) -> list[ProcessSpec]:
    """Return the process of a range without an L2 source, which reads at least one block before it."""
    flags, rollup, outputs = command.flags, command.chain.config, Outputs.open()
    if flags.batcher is not None:
        genesis = rollup.genesis
        config = msgspec.structs.replace(genesis.system_config, batcher=flags.batcher)
        rollup = msgspec.structs.replace(rollup, genesis=msgspec.structs.replace(genesis, system_config=config))
    listing = ListingConfig(
        rollup=rollup,
        first=max(rollup.genesis.l1.number, flags.from_l1 - max(1, flags.warmup)),
        last=flags.to_l1,
        batcher=None,
        form=RowFormat.JSON,
        output=outputs.results,
        errors=outputs.errors,
        timeout=flags.timeout,
    )
    rows = ReadingConfig(listing, flags.from_l1, flags.rows)
    return [last_process("derivation", "history.reading_stage", rows, outputs)]
