"""`rollup-node witness range`: derives one range and keeps packs of what it reads; `witness` starts it."""

import os
import signal
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rollup_node.node.setup.plan import derivation_config
from rollup_node.node.system.exit_codes import ExitCode, SetupError
from rollup_node.node.system.process_control import kept_stop_signals, signal_when_parent_ends
from rollup_node.node.system.process_table import ProcessSpec
from rollup_node.node.system.resources import usable_cores
from rollup_node.tools.commands.common import HELP_EPILOG, Outputs, ParsedCommand, parse, run
from rollup_node.tools.commands.flags import FlagParser, block_number, check_l2_source
from rollup_node.tools.commands.replay import replay_config
from rollup_node.tools.inspect.row_formats import RowFormat
from rollup_node.tools.witness.packs import PackFolder, base_name
from rollup_node.tools.witness.range_stage import WitnessRangeConfig
from rollup_node.tools.witness.recording_stage import RecordingConfig

DESCRIPTION = """Derives one range of L2 blocks and keeps what it reads on L1. It is what `witness` starts for each
range."""


def main(arguments: Sequence[str]) -> int:
    """Run the command; 0 when the range is derived and all that it reads is kept."""
    parser = FlagParser("witness range", DESCRIPTION, HELP_EPILOG)
    parser.add_argument("--from-l2", type=block_number, required=True, metavar="N", help="the safe head to begin with")
    parser.add_argument("--to-l2", type=block_number, required=True, metavar="M", help="the last block to derive")
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
    engine = "rollup_node.tools.witness.range_stage:build"
    specs = [
        ProcessSpec("derivation", "rollup_node.stages.derivation.process.stage:build", derivation),
        ProcessSpec("engine", engine, stage, one_shot=True, keep_fds=tuple(outputs)),
    ]
    build, config = "rollup_node.tools.witness.recording_stage:build", RecordingConfig(folder, base_name(first, last))
    workers = command.values["workers"] or usable_cores()
    # The supervisor takes the signals that end a command, and leaves them to nobody.
    with kept_stop_signals():
        code = run(command, specs, compute=lambda spec: replace(spec, build=build, config=config, copies=workers))
    # The disk refuses to take it.
    return ExitCode.SETUP if code == ExitCode.CRITICAL else code
