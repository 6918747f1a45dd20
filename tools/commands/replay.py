"""`rollup-node replay`: derives L2 blocks from L1 by all rules, from a known safe head, without an engine."""

import sys
from collections.abc import Sequence
from pathlib import Path

from rollup_node.node.options.errors import shown
from rollup_node.node.setup.plan import derivation_config
from rollup_node.node.system.exit_codes import PROGRAM, SetupError
from rollup_node.node.system.process_table import ProcessSpec
from rollup_node.tools.commands.common import HELP_EPILOG, Outputs, ParsedCommand, l2_secret, parse, run
from rollup_node.tools.commands.flags import FlagParser, block_number, check_l2_source
from rollup_node.tools.commands.output_file import CommandOutput, open_output
from rollup_node.tools.inspect.output import write_all
from rollup_node.tools.inspect.replay import REPLAYED
from rollup_node.tools.inspect.replay_stage import ReplayConfig
from rollup_node.tools.inspect.row_formats import RowFormat, RowFormatter
from rollup_node.tools.witness.preimages import WitnessError
from rollup_node.tools.witness.reader import WitnessReader
from rollup_node.tools.witness.replay import derive_witness

DESCRIPTION = """Derives L2 blocks N+1 to M from L1, block N being the safe head, and writes one line for each, with the
L1 transactions of its batch. Each is compared with the L2 source where it has the block; the first difference ends the
run with exit code 1. With --l2 reading begins where a node would begin; with a file, or --from-l1, at the safe origin
less the timeout, or K. The last block before a network left the OP Stack is the last that is derived."""

WITNESS = """Derives the range of a witness from its preimages alone, each checked against its key; no endpoint is
asked. The blocks are compared with the headers in the witness."""


def main(arguments: Sequence[str]) -> int:
    """Run the command; 0 when all blocks were derived and none differs."""
    if any(word.partition("=")[0] == "--witness" for word in arguments):
        return _replay_witness(arguments)
    parser = FlagParser("replay", DESCRIPTION, HELP_EPILOG)
    parser.add_argument("--witness", metavar="FOLDER", help="derive from this witness alone, without any other flag")
    parser.add_argument("--from-l2", type=block_number, required=True, metavar="N", help="the safe head to begin with")
    parser.add_argument("--to-l2", type=block_number, required=True, metavar="M", help="the last block to derive")
    parser.add_l2_source()
    parser.add_argument("--from-l1", type=block_number, metavar="K", help="begin reading at this L1 block")
    parser.add_output()
    parser.add_timeout()
    command = parse(parser, arguments)
    flags = command.flags
    if flags.to_l2 <= flags.from_l2:
        raise SetupError(f"--to-l2 {flags.to_l2} is not after --from-l2 {flags.from_l2}")
    check_l2_source(flags)
    # Before the output file is opened.
    l2_secret(command)
    with open_output(flags) as out:
        return out.end(_replay(command, out))


def _replay_witness(arguments: Sequence[str]) -> int:
    """Derive the range of a witness from its store alone; 0 when no block differs."""
    parser = FlagParser("replay --witness FOLDER", WITNESS)
    parser.add_argument("--witness", required=True, metavar="FOLDER", help="a folder that `witness` wrote")
    parser.add_output()
    flags = parser.parse_all(arguments)
    with open_output(flags) as out:
        return out.end(_derive_witness(Path(flags.witness), out))


def _derive_witness(folder: Path, out: CommandOutput) -> int:
    rows, number = RowFormatter(out.form, REPLAYED), 0
    differences: tuple[str, ...] = ()
    try:
        witness = WitnessReader(folder)
        for comparison in derive_witness(witness):
            _write(out, rows.row(comparison.values))
            differences, number = comparison.differences, comparison.safe_head.number
    except WitnessError as error:
        raise SetupError(f"--witness {shown(str(folder))}: {error}") from None
    for line in differences[:1]:
        print(f"{PROGRAM}: block {number} differs from the witness in {line}", file=sys.stderr)
    for line in differences[1:]:
        print(f"{PROGRAM}:   {line}", file=sys.stderr)
    if differences:
        return 1
    manifest = witness.manifest
    text = f"L2 blocks {manifest.safe_head.number + 1} to {manifest.last} follow from L1 block {manifest.l1_head.hash}"
    print(f"{PROGRAM}: {text} and L2 block {manifest.safe_head.hash}", file=sys.stderr)
    return 0


def _write(out: CommandOutput, text: str) -> None:
    if out.file is None:
        sys.stdout.write(text)
        return
    try:
        write_all(out.file.descriptor, text.encode())
    except OSError as error:
        raise SetupError(f"cannot write the results: {error.strerror}") from None


def _replay(command: ParsedCommand, out: CommandOutput) -> int:
    flags, outputs = command.flags, Outputs.open(out.file)
    derivation = derivation_config(command.values, command.chain, ahead=0)
    replay = replay_config(command, outputs, flags.from_l2, flags.to_l2, out.form, flags.from_l1)
    return run(
        command,
        [
            ProcessSpec("derivation", "rollup_node.tools.inspect.replay:build", derivation),
            ProcessSpec(
                "engine",
                "rollup_node.tools.inspect.replay_stage:build",
                replay,
                one_shot=True,
                keep_fds=tuple(outputs),
            ),
        ],
        inbox_hashes=True,
    )


def replay_config(
    command: ParsedCommand, outputs: Outputs, first: int, last: int, form: RowFormat, base: int | None = None
) -> ReplayConfig:
    """Return a replay of the L2 blocks after `first` up to `last`, read from L1 block `base` on.

    Raises SetupError for a file of --l2.jwt-secret without a secret."""
    flags = command.flags
    return ReplayConfig(
        rollup=command.chain.config,
        first=first,
        last=last,
        url=flags.l2,
        blocks=flags.l2_blocks,
        base=base,
        form=form,
        output=outputs.results,
        errors=outputs.errors,
        timeout=flags.timeout,
        jwt_secret=l2_secret(command),
    )
