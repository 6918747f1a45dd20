"""`rollup-node replay`: derives L2 blocks from L1 by all rules, from a known safe head, without an engine."""

from collections.abc import Sequence
from importlib import import_module

from rollup_node.node.setup.plan import derivation_config
from rollup_node.node.system.process_table import ProcessSpec
from rollup_node.tools.commands.common import HELP_EPILOG, Outputs, ParsedCommand, l2_secret, last_process, parse, run
from rollup_node.tools.commands.flags import FlagParser, block_number, check_l2_range, check_l2_source
from rollup_node.tools.commands.output_file import CommandOutput, open_output
from rollup_node.tools.inspect.replay_stage import ReplayConfig
from rollup_node.tools.inspect.row_formats import RowFormat

DESCRIPTION = """Derives L2 blocks N+1 to M from L1, block N being the safe head, and writes one line for each, with the
L1 transactions of its batch. Each is compared with the L2 source where it has the block; the first difference ends the
run with exit code 1. With --l2 reading begins where a node would begin; with a file, or --from-l1, at the safe origin
less the timeout, or K. The last block before a network left the OP Stack is the last that is derived."""


def main(arguments: Sequence[str]) -> int:
    """Run the command; 0 when all blocks were derived and none differs."""
    if any(word.partition("=")[0] == "--witness" for word in arguments):
        code: int = import_module("rollup_node.tools.commands.replay_witness").main(arguments)
        return code
    parser = FlagParser("replay", DESCRIPTION, HELP_EPILOG)
    parser.add_argument("--witness", metavar="FOLDER", help="derive from this witness alone, without any other flag")
    parser.add_l2_range()
    parser.add_l2_source()
    parser.add_argument("--from-l1", type=block_number, metavar="K", help="begin reading at this L1 block")
    parser.add_output()
    parser.add_timeout()
    command = parse(parser, arguments, derives=True)
    flags = command.flags
    check_l2_range(flags)
    check_l2_source(flags)
    # Before the output file is opened.
    l2_secret(command)
    with open_output(flags) as out:
        return out.end(_replay(command, out))


def _replay(command: ParsedCommand, out: CommandOutput) -> int:
    flags, outputs = command.flags, Outputs.open(out.file)
    derivation = derivation_config(command.values, command.chain, ahead=0)
    replay = replay_config(command, outputs, flags.from_l2, flags.to_l2, out.form, flags.from_l1)
    return run(
        command,
        [
            ProcessSpec("derivation", "rollup_node.tools.inspect.replay:build", derivation),
            last_process("engine", "inspect.replay_stage", replay, outputs),
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
