"""The configuration of a replay from the flags of a command that has an L2 source."""

from rollup_node.tools.commands.common import Outputs, ParsedCommand, l2_secret
from rollup_node.tools.inspect.replay_stage import ReplayConfig
from rollup_node.tools.inspect.row_formats import RowFormat


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
