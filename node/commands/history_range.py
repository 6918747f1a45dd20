"""`rollup-node history range`: derives one range of L1 blocks and writes its rows; `history run` starts it."""

import ctypes
import signal
from collections.abc import Sequence

from rollup_node.node.commands.common import HELP_EPILOG, Outputs, l2_secret, parse, run
from rollup_node.node.commands.flags import FlagParser, block_number
from rollup_node.node.history.derivation_stage import RangeConfig
from rollup_node.node.history.start_stage import RangeStartConfig
from rollup_node.node.inspect.replay_stage import ReplayConfig
from rollup_node.node.inspect.row_formats import RowFormat
from rollup_node.node.setup.plan import derivation_config
from rollup_node.node.system.exit_codes import SetupError
from rollup_node.node.system.process_table import ProcessSpec

DESCRIPTION = """Derives one range of L1 blocks and writes its rows as files of JSON lines. It is what `history run`
starts for each range."""
UNBOUNDED = (1 << 63) - 1
_PR_SET_PDEATHSIG = 1


def main(arguments: Sequence[str]) -> int:
    """Runs the command; 0 when the rows of the whole range are written."""
    parser = FlagParser("history range", DESCRIPTION, HELP_EPILOG)
    parser.add_argument("--from-l1", type=block_number, required=True, metavar="A", help="first L1 block")
    parser.add_argument("--to-l1", type=block_number, required=True, metavar="B", help="last L1 block, included")
    parser.add_argument("--rows", required=True, metavar="FOLDER", help="an existing folder for the rows")
    parser.add_argument("--warmup", type=block_number, required=True, metavar="N", help="L1 blocks read before A")
    parser.add_argument("--floor", type=block_number, required=True, metavar="K", help="the first L1 block with a file")
    parser.add_argument("--safe-head", type=block_number, metavar="N", help="the safe head to begin with")
    parser.add_l2_source()
    parser.add_timeout()
    command = parse(parser, arguments)
    flags = command.flags
    if (flags.l2 is None) == (flags.l2_blocks is None):
        raise SetupError("give the L2 source: either --l2 URL or --l2-blocks FILE")
    if flags.safe_head is None and flags.l2 is None:
        raise SetupError("--l2-blocks needs the block to begin with: --safe-head N")
    # The processes end with the worker that started them, however it ends.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    outputs = Outputs.open()
    replay = ReplayConfig(
        rollup=command.chain.config,
        first=0,
        last=UNBOUNDED,
        url=flags.l2,
        blocks=flags.l2_blocks,
        base=None,
        form=RowFormat.JSON,
        output=outputs.results,
        errors=outputs.errors,
        timeout=flags.timeout,
        jwt_secret=l2_secret(command),
    )
    start = RangeStartConfig(replay, flags.from_l1, flags.warmup, flags.safe_head, flags.floor)
    derivation = derivation_config(command.values, command.chain, ahead=0)
    rows = RangeConfig(derivation, flags.from_l1, flags.to_l1, flags.rows)
    # Both end the node: derivation when the range is read, the engine stage when it cannot be.
    return run(
        command,
        [
            ProcessSpec("derivation", "rollup_node.node.history.derivation_stage:build", rows, one_shot=True),
            ProcessSpec(
                "engine", "rollup_node.node.history.start_stage:build", start, one_shot=True, keep_fds=tuple(outputs)
            ),
        ],
        inbox_hashes=True,
    )
