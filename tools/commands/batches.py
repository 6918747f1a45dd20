"""`rollup-node batches`: every batch in a range of L1 blocks, without any check of validity."""

from collections.abc import Sequence

from rollup_node.tools.commands.common import (
    HELP_EPILOG,
    Outputs,
    ParsedCommand,
    address,
    check_batches_on_l1,
    last_process,
    parse,
    run,
)
from rollup_node.tools.commands.flags import FlagParser, check_l1_range
from rollup_node.tools.commands.output_file import CommandOutput, open_output
from rollup_node.tools.inspect.listing_stage import ListingConfig

DESCRIPTION = """Lists every batch in a range of L1 blocks, in the order in which channels end: L1 block, its L1
transactions, channel with its compressed size, kind, L2 blocks and the time of the first, transactions, and the sha256
over the transaction hashes. Reading begins without open channels; the batcher is the one of the genesis config, changed
by the updates in the range."""


def main(arguments: Sequence[str]) -> int:
    """Run the command; 0 when the whole range was read."""
    parser = FlagParser("batches", DESCRIPTION, HELP_EPILOG)
    parser.add_l1_range()
    parser.add_argument("--batcher", type=address, metavar="ADDRESS", help="take this sender's transactions instead")
    parser.add_output()
    parser.add_timeout()
    command = parse(parser, arguments)
    flags = command.flags
    check_l1_range(flags)
    check_batches_on_l1(command)
    with open_output(flags) as out:
        return out.end(_list(command, out))


def _list(command: ParsedCommand, out: CommandOutput) -> int:
    flags, outputs = command.flags, Outputs.open(out.file)
    config = ListingConfig(
        rollup=command.chain.config,
        first=flags.from_l1,
        last=flags.to_l1,
        batcher=flags.batcher,
        form=out.form,
        output=outputs.results,
        errors=outputs.errors,
        timeout=flags.timeout,
    )
    return run(command, [last_process("derivation", "inspect.listing_stage", config, outputs)], inbox_hashes=True)
